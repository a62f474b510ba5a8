"""
Train a PyTorch model privately
===============================

This page is for users of PyTorch. :class:`~skdpspectral.neural_network.JMEAdam` takes
the gradient of each example and returns the update of the parameters. The example is
a small convolutional network on scikit-learn's digits. It needs PyTorch.
"""

# %%
# The optimizer draws each batch, and each batch has its step. Layers that mix the
# examples of a batch, such as batch normalization, are not allowed.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdpspectral.neural_network import Adam, JMEAdam

try:
    import torch
except ImportError:
    torch = None


def train(X, y, epsilon):
    """Return a network that is private for each row."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.Tanh(),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 10),
    )
    weights = {name: w.detach() for name, w in model.named_parameters()}
    n_parameters = sum(w.numel() for w in weights.values())

    def loss(weights, image, label):
        out = torch.func.functional_call(model, weights, (image[None],))
        return torch.nn.functional.cross_entropy(out, label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    steps = Adam(learning_rate=0.2, moments="jme")
    adam = JMEAdam(n_parameters, len(X), epsilon=epsilon, n_epochs=20, optimizer=steps)
    for batch in adam.batches():
        rows = np.zeros((0, n_parameters))
        if len(batch):
            found = gradients(weights, X[batch], y[batch])
            rows = torch.cat([g.flatten(1) for g in found.values()], dim=1).numpy()
        step, start = torch.tensor(adam.step(rows, batch), dtype=torch.float32), 0
        for name, w in weights.items():
            part = step[start : start + w.numel()]
            weights[name], start = w + part.reshape(w.shape), start + w.numel()
    print(f"epsilon {adam.privacy_.epsilon:g} for {adam.n_steps} steps")
    return lambda rows: torch.func.functional_call(model, weights, (rows,)).argmax(1)


if torch is None:
    print("PyTorch is not installed")
else:
    digits = load_digits()
    images = torch.tensor(digits.images[:, None] / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    rest, test = train_test_split(np.arange(len(labels)), random_state=0)
    budgets, shares = [0.5, 1.0, 2.0, 4.0], []
    for epsilon in budgets:
        predict = train(images[rest], labels[rest], epsilon)
        shares.append((predict(images[test]) == labels[test]).float().mean())
    fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
    ax.plot(budgets, shares, "o-")
    ax.set_xscale("log", base=2)
    ax.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
    ax.set(xlabel="epsilon", ylabel="accuracy on test images", ylim=(0, 1))
    plt.show()
