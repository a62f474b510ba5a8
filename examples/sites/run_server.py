"""The server of a federation: ``python run_server.py``, once all sites are running.

It asks the sites that are registered here, and writes the components to a
file. It needs no access to rows or ledgers.
"""

from skdpspectral import FederatedDPPCA
from skdpspectral.federation import (
    Registration,
    Rounds,
    Server,
    SiteConnection,
    make_task,
)

# The task is the same in run_site.py. A site refuses any other task.
FEATURES = {"age": (0, 100), "weight": (30, 200), "pressure": (60, 240)}
TASK = make_task(
    n_components=1,
    n_features=len(FEATURES),
    feature_names=list(FEATURES),
    bounds=tuple(zip(*FEATURES.values(), strict=True)),  # public knowledge
    scale="bounds",  # because the features have different units
)

# Each site prints its line when it starts.
REGISTERED = {
    "north": Registration(n_samples=4000, epsilon=1.0, delta=1e-06),
    "south": Registration(n_samples=12000, epsilon=1.0, delta=1e-06),
}


def ask(name, request):
    try:
        return SiteConnection(f"{name}.socket").respond(request)
    except Exception as error:  # the site is left out by name
        return error


if __name__ == "__main__":
    rounds = Rounds(Server(REGISTERED, TASK))
    while not rounds.done:
        request = rounds.request().to_bytes()
        names = rounds.server.clients
        rounds.collect({name: ask(name, request) for name in names})
    pca = FederatedDPPCA.from_result(rounds.result())
    pca.save("components.npz")
    print(pca.privacy_)
    for name, weight in zip(pca.clients_, pca.client_weights_, strict=True):
        print(f"{name} has weight {weight:.1f}")
