# %% [markdown]
# # From measurements to a forecast that can be trusted
#
# This file is a notebook in plain Python: open it in an editor that knows `# %%` cells, or run it as it is.

# %%
import matplotlib

matplotlib.use("Agg")  # draw into files; leave this out in a notebook

import numpy as np
import pandas as pd

import nsde

# %% [markdown]
# ## Data
#
# Twenty runs of a damped pendulum that is kicked at random, as a table with one row per measurement. We write the
# pendulum down as a model of its own, with layers and numbers that we know, and let it draw the runs.

# %%
swing = [nsde.Linear(2, 2, weight=[[0.0, 1.0], [-2.0, -0.3]], bias=[0.0, 0.0])]
truth = nsde.NeuralSDE(swing, [0.05, 0.3], dt=0.02)
paths = truth.sample([1.0, 0.0], steps=400, samples=20, seed=1)[:, 4::5, 0]  # every 0.1 s
rows = [pd.DataFrame({"run": run, "t": 0.1 * np.arange(1, 81), "angle": x[:, 0], "speed": x[:, 1]}) for run, x in enumerate(paths)]
data = pd.concat(rows, ignore_index=True)
print(data.head(3))

# %% [markdown]
# ## Fit
#
# `fit` takes arrays, lists of arrays, pandas and polars frames. The last runs are held out for validation. Ctrl-C would
# stop here and keep the best model so far; `progress=True` would show a bar.

# %%
train, test = data[data.run < 16], data[data.run >= 16]
forecaster = nsde.NSDEForecaster(hidden=(24,), noise_hidden=(8,), steps=300, horizon=8)
forecaster.fit(train, t="t", series="run")
print(forecaster.model_)
print("validation NLL:", round(forecaster.history_[-1][3], 3))

# %% [markdown]
# ## Forecast
#
# From the middle of a run that was not used, two seconds ahead: means, full covariances, intervals, paths.

# %%
run = test[test.run == 16].drop(columns="run")
past, future = run[:40], run[40:60]
forecast = forecaster.forecast(20, past, "t")
low, high = forecast.interval(0.9)
print(forecast.to_pandas().round(2).head(3))
assert forecast.mean.shape == (20, 2) and forecast.cov.shape == (20, 2, 2)

axes = forecast.plot(0.9)
for ax, column in zip(axes, ["angle", "speed"]):
    ax.plot(future["t"], future[column], "k.", label="came true")
axes[0].figure.savefig("forecast.png")

# %% [markdown]
# ## Can it be trusted?
#
# Forecasts from many starts, against what came true. The coverage of the 90 % intervals should be near 0.9.

# %%
starts, truths = [], []
for _, one in test.groupby("run"):
    values = one[["angle", "speed"]].to_numpy()
    for first in range(0, 60, 10):
        starts.append(values[first : first + 1])
        truths.append(values[first + 1 : first + 11])
y = np.stack(truths, axis=1)  # [steps, starts, D]
laws = forecaster.forecast(10, starts)
print("NLL      ", round(nsde.metrics.nll(laws.mean, laws.cov, y), 3))
print("CRPS     ", round(nsde.metrics.crps(laws.mean, laws.cov, y), 3))
print("ECPE     ", round(nsde.metrics.ecpe(laws.mean, laws.cov, y), 3))
print("90 % hold", round(nsde.metrics.coverage(laws.mean, laws.cov, y, 0.9), 3))
assert nsde.metrics.coverage(laws.mean, laws.cov, y, 0.9) > 0.75

# %% [markdown]
# The model that drew the data cannot be beaten by much; ours comes close to its likelihood.

# %%
best = truth.predict(np.concatenate(starts), steps=50)
floor = nsde.metrics.nll(best.mean[4::5], best.cov[4::5], y)
print("NLL of the truth", round(floor, 3))
assert nsde.metrics.nll(laws.mean, laws.cov, y) < floor + 1.0

# %% [markdown]
# ## Keep it
#
# One file, which the command line reads too: `nsde forecast pendulum.safetensors --data runs.csv --steps 20`.

# %%
forecaster.model_.save("pendulum.safetensors")
model = nsde.NeuralSDE.load("pendulum.safetensors")

# %% [markdown]
# ## Below the estimators
#
# A model is a drift and a diffusion. It predicts from points or Gaussians, and its likelihood has gradients, so that
# you can train it in a way of your own. Here: ten steps of plain gradient descent.

# %%
x0 = np.concatenate(starts)
before, grad = model.nll_and_grad(x0, y, dt=0.1)
for _ in range(10):
    value, grad = model.nll_and_grad(x0, y, dt=0.1)
    model.set_parameters({name: p - 1e-3 * grad[name] for name, p in model.parameters.items()})
after = model.nll(x0, y, dt=0.1)
print("NLL", round(before, 4), "→", round(after, 4))
assert after < before
