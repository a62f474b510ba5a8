"""Shaped noise of first moments beside jax-privacy's BLT: CPU seconds.

python examples/benchmarks/jme_peer.py [--steps 10000] [--width 50]

Runs the half whose package the environment has: install jax-privacy in an environment
of its own. Both draw normals and apply the inverse of the same buffered Toeplitz
matrix, step after step; compilation is left out.
"""

import argparse
import time

import numpy as np

DECAY = [0.6630173, 0.9590126, 0.9958009, 0.9997039]
WEIGHT = [0.2788845, 0.1406596, 0.0475893, 0.0226058]


def ours(steps, width):
    """Return a function that makes all noise, on the grid."""
    from skdpspectral._release.noise import _ShapedNoise, noise_generator
    from skdpspectral.factorizations import BufferedToeplitz
    from skdpspectral.mechanisms import CorrelatedGaussian

    matrix = BufferedToeplitz(DECAY, WEIGHT, steps)
    mechanism = CorrelatedGaussian(
        "first", 2.0, 10.0, (width,), column_norm=matrix.column_norm, max_steps=steps
    )

    def run():
        noise = _ShapedNoise(mechanism, matrix.filter(width), noise_generator())
        noise.add_to(np.zeros((steps, width)), 0)

    return run


def peer(steps, width):
    """Return the same with jax-privacy, compiled, in float64."""
    import jax
    from jax_privacy.matrix_factorization import buffered_toeplitz

    jax.config.update("jax_enable_x64", True)
    matrix = buffered_toeplitz.BufferedToeplitz.build(DECAY, WEIGHT)
    stream = matrix.inverse_as_streaming_matrix()

    @jax.jit
    def make(key):
        def step(state, key):
            row = jax.random.normal(key, (width,), dtype="float64")
            shaped, state = stream.multiply_next(row, state)
            return state, shaped

        state = stream.init_multiply(jax.ShapeDtypeStruct((width,), "float64"))
        return jax.lax.scan(step, state, jax.random.split(key, steps))[1]

    key = jax.random.PRNGKey(0)
    return lambda: make(key).block_until_ready()


def main():
    """Print the medians of five runs, after one that is not counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=50)
    options = parser.parse_args()
    for name, make in (("skdpspectral", ours), ("jax-privacy", peer)):
        try:
            run = make(options.steps, options.width)
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        run()
        seconds = []
        for _ in range(5):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
        print(f"{name}: {np.median(seconds):.4f} CPU seconds")


if __name__ == "__main__":
    main()
