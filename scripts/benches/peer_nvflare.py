# SPDX-License-Identifier: Apache-2.0
"""NVFlare for scripts/benches/peer_round.py: its simulator with a process per client, FedAvg of a NumPy array, no training.

The first client times a round, from one received model to the next.
"""
import json
import pathlib
import sys
import tempfile

CLIENT = '''
import json, sys, time
import nvflare.client as flare

flare.init()
site, seen = flare.get_site_name(), []
while flare.is_running():
    model = flare.receive()
    if model is None:
        break
    seen.append(time.monotonic())
    values = {key: array + 1 for key, array in model.params.items()}
    last = float(next(iter(values.values())).reshape(-1)[-1])
    flare.send(flare.FLModel(params=values, params_type=flare.ParamsType.FULL, metrics={"accuracy": 0.0}))
    with open(f"{sys.argv[1]}/{site}.json", "w") as file:
        json.dump({"seen": seen, "last": last}, file)
'''


def measured(parameters, workers, rounds, used_seconds):
    """Seconds of each round, and CPU seconds of all of them together."""
    import numpy
    from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
    from nvflare.recipe import SimEnv
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        numpy.save(place / "model.npy", numpy.zeros(parameters, numpy.float32))
        (place / "client.py").write_text(CLIENT)
        recipe = NumpyFedAvgRecipe(name="bench", initial_ckpt=str(place / "model.npy"), min_clients=workers, num_rounds=rounds + 1,
                                   train_script=str(place / "client.py"), train_args=directory)
        begin = used_seconds()
        recipe.execute(SimEnv(num_clients=workers, num_threads=workers, workspace_root=str(place / "workspace")))
        cpu = used_seconds() - begin
        told = json.loads((place / "site-1.json").read_text())
        if abs(told["last"] - (rounds + 1)) > 1e-3:
            sys.exit(f"peer_round: a value is {told['last']} after {rounds + 1} rounds of NVFlare that each add one")
        return [b - a for a, b in zip(told["seen"], told["seen"][1:])], cpu
