"""What is timed: the configurations of `crates/nsde/examples/speed.rs`, and the flops of one step."""

from dataclasses import dataclass

KEEP = 0.8  # probability that dropout keeps a hidden unit
DT = 0.05  # step size
INPUT = 0.1  # value of every control input
CONSTANT_SCALE = 0.3  # diagonal of a constant diffusion


@dataclass(frozen=True)
class Config:
    """One system: hidden layers are ReLU followed by dropout."""

    name: str
    dim: int
    inputs: int
    drift: tuple[int, ...]
    diffusion: tuple[int, ...] | None  # None: a constant diagonal
    batch: int
    steps: int


CONFIGS = {
    c.name: c
    for c in (
        Config("A", 2, 0, (50, 50), (50,), 16, 10),
        Config("B", 34, 0, (100, 100), (100,), 16, 10),
        Config("C", 9, 3, (50, 50), (50,), 16, 16),
        Config("D", 9, 0, (40,), (10,), 32, 16),
        Config("E", 128, 0, (128, 128, 128), None, 1, 1),
        Config("F", 32, 28, (50, 50), (50,), 10, 28),
        Config("G", 512, 0, (512,), None, 1, 100),
    )
}


def free(dim: int, width: int, steps: int, batch: int) -> Config:
    """The configuration of `speed --dim --width --steps --batch`."""
    return Config("free", dim, 0, (width, width), (width,), batch, steps)


def step_flops(c: Config) -> float:
    """Useful flops of one forward step of one trajectory, symmetric work counted once.

    Only the matrix products of the method, in the form that everybody knows (`least_flops` has the cheapest that we know):

    - a layer `n → m`: `W B` with `2mn²`, the lower triangle of `(W B) Wᵀ` with `m(m+1)n`, `W a` with `2mn`;
    - its expected Jacobian `W J` with `2mnD` (the first layer's is `W` itself);
    - the last layer of the diffusion: `W B` and only the diagonal of `(W B) Wᵀ`, no Jacobian;
    - the step: `J Σ` with `2D³`.

    Activations count nothing, because their work depends on the mode; so a share of the peak that is
    computed from this is a lower bound. Control inputs carry no variance and enter only `W a`.
    """
    d = c.dim
    total = 2.0 * d**3
    n = d
    for place, m in enumerate((*c.drift, d)):
        total += 2 * m * n**2 + m * (m + 1) * n + 2 * m * n
        total += 2 * m * n * d if place else 2 * m * c.inputs
        n = m
    if c.diffusion is not None:
        n = d
        for m in c.diffusion:
            total += 2 * m * n**2 + m * (m + 1) * n + 2 * m * n
            n = m
        total += 2 * d * n**2 + 2 * d * n + 2 * d * n
    return total


def least_flops(c: Config) -> float:
    """The same with as few flops as we know of, for what a machine allows.

    A covariance through a layer `n → m`, the lower triangle of `W B Wᵀ`, takes the least of

    - `2mn² + m(m+1)n`: `W B`, then half of a product;
    - `mn² + 2m²n`: `B = T + Tᵀ`, `S = W T Wᵀ`, `W B Wᵀ = S + Sᵀ`;
    - `n³/3 + mn² + m(m+1)n`: `B = L Lᵀ`, `(W L)(W L)ᵀ`.

    The last layer of the diffusion, of which only the diagonal counts, takes half of `W B`.
    """

    def layer(n: int, m: int) -> float:
        half = m * n**2
        lower = m * (m + 1) * n
        return min(2 * half + lower, half + 2 * m**2 * n, n**3 / 3 + half + lower)

    plain, n = step_flops(c), c.dim
    for m in (*c.drift, c.dim):
        plain -= 2 * m * n**2 + m * (m + 1) * n - layer(n, m)
        n = m
    if c.diffusion is not None:
        n = c.dim
        for m in c.diffusion:
            plain -= 2 * m * n**2 + m * (m + 1) * n - layer(n, m)
            n = m
        plain -= c.dim * n**2
    return plain


def series_flops(c: Config) -> float:
    """What the series of eight terms adds: 20 multiplications, or multiply-adds, for each pair of hidden units."""
    return sum(40 * h * (h + 1) / 2 for h in (*c.drift, *(c.diffusion or ())))


if __name__ == "__main__":
    # The table of bench/README.md, forward: Gflop, and milliseconds at a peak in GFLOP/s.
    import sys

    peak = float(sys.argv[1])
    for name, c in CONFIGS.items():
        passes = c.batch * (10 if name == "G" else c.steps) / 1e9
        counts = [f(c) * passes for f in (step_flops, least_flops, series_flops)]
        bound = 1e3 * (counts[1] + counts[2]) / peak
        print(f"{name}: products {counts[0]:.3g}, at least {counts[1]:.3g}; series {counts[2]:.3g}; bound {bound:.3g} ms")
