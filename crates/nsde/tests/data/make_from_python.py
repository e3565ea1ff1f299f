"""Writes from_python.safetensors and from_python.json beside this script: a model file as a Python user makes it.

    pip install safetensors numpy      # torch too, if you have it: the files come out the same
    python make_from_python.py

With torch, the tensors come from the state_dict() of real nn.Sequential modules; without, from numpy
arrays under the names that state_dict() gives. The test `a_file_from_python_is_read` compares.
"""

import json
import math
import pathlib

import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent

DESCRIPTION = {
    "version": 1,
    "state": 2,
    "inputs": 1,
    "dt": 0.05,
    "trained_with": {"epochs": 3, "note": "an unknown key, kept"},
    "drift": [
        {"type": "linear", "in": 3, "out": 6},
        {"type": "gelu"},
        {"type": "dropout", "keep": 0.8},
        {
            "type": "residual",
            "layers": [
                {"type": "linear", "in": 6, "out": 4},
                {"type": "tanh"},
                {"type": "linear", "in": 4, "out": 6},
            ],
        },
        {"type": "relu"},
        {"type": "linear", "in": 6, "out": 2},
    ],
    "diffusion": {
        "kind": "diagonal",
        "inputs": True,
        "layers": [
            {"type": "linear", "in": 3, "out": 5},
            {"type": "silu"},
            {"type": "linear", "in": 5, "out": 2},
            {"type": "softplus"},
        ],
    },
    "scaling": {"mean": [3.9, 2.0], "std": [2.2, 1.5]},
    "inputs_scaling": {"mean": [0.5], "std": [0.25]},
    "columns": ["prey", "predator"],
}


def numpy_tensors(layers, prefix, rng):
    """Random F32 weights under PyTorch's names."""
    tensors = {}
    for place, layer in enumerate(layers):
        if layer["type"] == "linear":
            bound = 1 / math.sqrt(layer["in"])
            shapes = {"weight": (layer["out"], layer["in"]), "bias": (layer["out"],)}
            for name, shape in shapes.items():
                tensors[f"{prefix}{place}.{name}"] = rng.uniform(-bound, bound, shape).astype(np.float32)
        elif layer["type"] == "residual":
            tensors |= numpy_tensors(layer["layers"], f"{prefix}{place}.layers.", rng)
    return tensors


def torch_tensors(layers, prefix, values):
    """The same numbers, through the state_dict() of real modules."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, h):
            return h + self.layers(h)

    kinds = {"gelu": nn.GELU, "tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "softplus": nn.Softplus}

    def build(layers):
        modules = []
        for layer in layers:
            if layer["type"] == "linear":
                modules.append(nn.Linear(layer["in"], layer["out"]))
            elif layer["type"] == "dropout":
                modules.append(nn.Dropout(1 - layer["keep"]))
            elif layer["type"] == "residual":
                modules.append(Residual(build(layer["layers"])))
            else:
                modules.append(kinds[layer["type"]]())
        return nn.Sequential(*modules)

    net = build(layers)
    own = {name.removeprefix(prefix): torch.from_numpy(v) for name, v in values.items() if name.startswith(prefix)}
    net.load_state_dict(own)
    return {prefix + name: tensor.numpy() for name, tensor in net.state_dict().items()}


def forward(layers, prefix, tensors, h):
    """The network on one point in double precision, dropout as the identity."""
    for place, layer in enumerate(layers):
        match layer["type"]:
            case "linear":
                weight = tensors[f"{prefix}{place}.weight"].astype(np.float64)
                h = weight @ h + tensors[f"{prefix}{place}.bias"].astype(np.float64)
            case "residual":
                h = h + forward(layer["layers"], f"{prefix}{place}.layers.", tensors, h)
            case "dropout":
                pass
            case "relu":
                h = np.maximum(h, 0)
            case "tanh":
                h = np.tanh(h)
            case "silu":
                h = h / (1 + np.exp(-h))
            case "softplus":
                h = np.log1p(np.exp(h))
            case "gelu":
                h = np.array([x * 0.5 * math.erfc(-x / math.sqrt(2)) for x in h])
    return h


def main():
    rng = np.random.default_rng(7)
    tensors = numpy_tensors(DESCRIPTION["drift"], "drift.", rng)
    tensors |= numpy_tensors(DESCRIPTION["diffusion"]["layers"], "diffusion.", rng)
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    else:
        from_torch = torch_tensors(DESCRIPTION["drift"], "drift.", tensors)
        from_torch |= torch_tensors(DESCRIPTION["diffusion"]["layers"], "diffusion.", tensors)
        tensors = from_torch
    names = list(tensors)
    rng.shuffle(names)
    save_file(
        {name: np.ascontiguousarray(tensors[name]) for name in names},
        HERE / "from_python.safetensors",
        metadata={"nsde": json.dumps(DESCRIPTION)},
    )

    point = np.array([0.7, -1.3, 0.4])
    expected = {
        "point": point.tolist(),
        "drift": forward(DESCRIPTION["drift"], "drift.", tensors, point).tolist(),
        "diffusion": forward(DESCRIPTION["diffusion"]["layers"], "diffusion.", tensors, point).tolist(),
    }
    (HERE / "from_python.json").write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    main()
