# SPDX-License-Identifier: Apache-2.0
"""Flower for scripts/benches/peer_round.py: a SuperLink, a SuperNode per worker, FedAvg over its HTTP API on loopback, no training.

The server's strategy times a round, from making the messages with the model to the averaged model.
"""
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

APP = '''
[project]
name = "bench"
version = "1.0.0"
[tool.flwr.app]
publisher = "bench"
[tool.flwr.app.components]
serverapp = "bench.app:server"
clientapp = "bench.app:client"
[tool.flwr.app.config]
parameters = 1
workers = 1
rounds = 1
told = ""
'''
CODE = '''
import json, time
import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()

@client.train()
def train(message, context):
    arrays = [a + 1 for a in message.content["arrays"].to_numpy_ndarrays()]
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=content, reply_to=message)

class Timed(FedAvg):
    took = []
    def configure_train(self, *a, **k):
        self.begin = time.monotonic()
        return super().configure_train(*a, **k)
    def aggregate_train(self, *a, **k):
        done = super().aggregate_train(*a, **k)
        self.took.append(time.monotonic() - self.begin)
        return done

server = ServerApp()

@server.main()
def main(grid, context):
    config = context.run_config
    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=config["workers"], min_available_nodes=config["workers"])
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(config["parameters"], np.float32)]), num_rounds=config["rounds"])
    last = result.arrays.to_numpy_ndarrays()[0]
    with open(config["told"], "w") as file:
        json.dump({"seconds": strategy.took, "value": float(last[-1])}, file)
'''


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def wait_open(address, seconds):
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(address.split(":"), timeout=5).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def measured(parameters, workers, rounds, seconds, used_seconds):
    """Seconds of each round, and CPU seconds of all of them together."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        (place / "home").mkdir()
        (place / "app/bench").mkdir(parents=True)
        (place / "app/pyproject.toml").write_text(APP)
        (place / "app/bench/__init__.py").write_text("")
        (place / "app/bench/app.py").write_text(CODE)
        link = f"127.0.0.1:{free_port()}"
        (place / "home/config.toml").write_text(f'[superlink]\ndefault = "bench"\n[superlink.bench]\naddress = "{link}"\ninsecure = true\n')
        folder = pathlib.Path(sys.executable).parent
        environment = os.environ | {"FLWR_HOME": str(place / "home"), "FLWR_TELEMETRY_ENABLED": "0", "PATH": f"{folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        log = open(place / "log", "w+")
        started = []

        def start(*words):
            started.append(subprocess.Popen([str(folder / words[0]), *words[1:]], env=environment, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, preexec_fn=die_with_parent))
            return started[-1]
        try:
            begin = used_seconds()
            host, port = link.split(":")
            start("flower-superlink", "--insecure", "--host", host, "--port", port, "--disable-runtime-dependency-installation")
            wait_open(link, seconds)
            for _ in range(workers):
                start("flower-supernode", "--insecure", "--superlink", link, "--port", str(free_port()))
            told = place / "told"
            config = f'parameters={parameters} workers={workers} rounds={rounds} told="{told}"'
            subprocess.run([str(folder / "flwr"), "run", str(place / "app"), "bench", "--run-config", config], env=environment, stdout=log, stderr=subprocess.STDOUT, check=True)
            end = time.monotonic() + seconds
            while not told.exists() or not told.read_text().endswith("}"):
                if time.monotonic() > end:
                    raise TimeoutError(f"Flower did not finish within {seconds} s")
                time.sleep(0.2)
            answer = json.loads(told.read_text())
            if abs(answer["value"] - rounds) > 1e-3:
                sys.exit(f"peer_round: a value is {answer['value']} after {rounds} rounds of Flower that each add one")
            return answer["seconds"], used_seconds() - begin
        except Exception:
            log.flush()
            sys.stderr.write((place / "log").read_text()[-3000:])
            raise
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
