# SPDX-License-Identifier: Apache-2.0
"""One synchronisation of a peer system among processes of this machine; scripts/bench peers runs it in the peers' environment.

    peer_round.py KIND PARAMETERS WORKERS ROUNDS

prints {"seconds": [one per round], "cpu_seconds": [of all processes, one per round]}. Every process holds PARAMETERS values in fp32,
which are averaged; the mean is checked. The first rounds are discarded, because connections and buffers are new in them.
"""
import datetime
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time

SKIPPED = 2
SECONDS = 300  # limit for one step of anything
TIMEOUT = datetime.timedelta(seconds=SECONDS)


def value_of(rank, turn):
    return float(rank + 10 * turn)


def check(tensor, workers, turn):
    wanted = sum(value_of(rank, turn) for rank in range(workers)) / workers
    for at in (0, len(tensor) // 2, len(tensor) - 1):
        if abs(float(tensor[at]) - wanted) > 1e-3 * max(1.0, wanted):
            sys.exit(f"peer_round: value {at} is {float(tensor[at])} after averaging, not {wanted}")


class Turns:
    """State shared by the processes of a measurement: the start of each round, and the processor time of each process."""

    def __init__(self, context, workers, rounds):
        self.workers, self.rounds = workers, SKIPPED + rounds
        self.gate = context.Barrier(workers)
        self.took, self.used = context.Array("d", self.rounds), context.Array("d", self.rounds)

    def play(self, rank, tensor, average, prepare=lambda: None):
        """`average()` averages `tensor` in place, or returns the mean; `prepare()` is the untimed part of a round."""
        for turn in range(self.rounds):
            tensor.fill_(value_of(rank, turn))
            prepare()
            self.gate.wait(SECONDS)
            begin, cpu = time.monotonic(), used_seconds()
            mean = average()
            mine = time.monotonic() - begin
            self.gate.wait(SECONDS)
            with self.used.get_lock():
                self.used[turn] += used_seconds() - cpu
                self.took[turn] = max(self.took[turn], mine)
            check(tensor if mean is None else mean, self.workers, turn)

    def told(self):
        return {"seconds": list(self.took)[SKIPPED:], "cpu_seconds": list(self.used)[SKIPPED:]}


def used_seconds():
    """Processor time of this process and of its children, ended or running, from /proc."""
    total = sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            children = [int(word) for task in os.listdir(f"/proc/{pid}/task") for word in open(f"/proc/{pid}/task/{task}/children").read().split()]
            for child in children:
                fields = open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            todo += children
        except FileNotFoundError:
            pass  # it ended meanwhile
    return total


def among_processes(member, parameters, workers, rounds, *more):
    context = multiprocessing.get_context("spawn")
    turns = Turns(context, workers, rounds)
    members = [context.Process(target=member, args=(rank, parameters, turns, *more)) for rank in range(workers)]
    for process in members:
        process.start()
    for process in members:
        process.join()
        if process.exitcode:
            for other in members:
                other.kill()
            sys.exit(f"peer_round: a process of {member.__name__} ended with {process.exitcode}")
    return turns.told()


# ---- Gloo


def gloo(parameters, workers, rounds):
    with tempfile.TemporaryDirectory() as directory:
        return among_processes(gloo_member, parameters, workers, rounds, f"file://{directory}/store")


def gloo_member(rank, parameters, turns, store):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=turns.workers, timeout=TIMEOUT)
    tensor = torch.empty(parameters)

    def average():
        dist.all_reduce(tensor)
        tensor.div_(turns.workers)
    turns.play(rank, tensor, average)
    dist.destroy_process_group()


# ---- torchft


def torchft(parameters, workers, rounds):
    from torchft.coordination import LighthouseServer
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=workers, join_timeout_ms=10_000, quorum_tick_ms=10)
    address = lighthouse.address().split("://")[-1]
    told = among_processes(torchft_member, parameters, workers, rounds, "http://127.0.0.1:" + address.rsplit(":", 1)[1])
    lighthouse.shutdown()
    return told


def torchft_member(rank, parameters, turns, lighthouse):
    import torch
    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(pg=ProcessGroupGloo(timeout=TIMEOUT), load_state_dict=lambda state: None, state_dict=dict, min_replica_size=turns.workers,
                      use_async_quorum=False, timeout=TIMEOUT, quorum_timeout=TIMEOUT, rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
                      lighthouse_addr=lighthouse, replica_id=f"r{rank}", hostname="127.0.0.1", init_sync=False)
    tensor = torch.empty(parameters)

    def average():
        manager.start_quorum()
        manager.allreduce(tensor).wait()  # its default divides by the number of participants
        if not manager.should_commit():
            sys.exit("peer_round: torchft did not commit a round in which nobody failed")
    turns.play(rank, tensor, average)
    manager.shutdown(wait=False)


# ---- hivemind


def hivemind(parameters, workers, rounds):
    import hivemind as library
    root = library.DHT(start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"])
    told = among_processes(hivemind_member, parameters, workers, rounds, [str(address) for address in root.get_visible_maddrs()])
    root.shutdown()
    return told


def hivemind_member(rank, parameters, turns, peers):
    import hivemind as library
    import torch
    from hivemind.averaging.control import AveragingStage
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # its arguments cannot be pickled
    dht = library.DHT(initial_peers=peers, start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"])
    tensor = torch.empty(parameters)
    averager = library.averaging.DecentralizedAverager([tensor], dht, prefix="bench", start=True, target_group_size=turns.workers,
                                                       min_group_size=turns.workers, min_matchmaking_time=3.0, request_timeout=2.0)
    pending = []

    def prepare():  # finding peers takes seconds by design, and is not counted
        with averager.get_tensors() as tensors:
            tensors[0].copy_(tensor)
        control = averager.step(wait=False, require_trigger=True, timeout=SECONDS)
        end = time.monotonic() + SECONDS
        while control.stage != AveragingStage.AWAITING_TRIGGER:
            if time.monotonic() > end or control.done():
                sys.exit("peer_round: hivemind found no group")
            time.sleep(0.01)
        pending.append(control)

    def average():
        pending[0].allow_allreduce()
        pending.pop().result(SECONDS)
        with averager.get_tensors() as tensors:
            return tensors[0]  # read before the next round begins
    turns.play(rank, tensor, average, prepare)
    turns.gate.wait(SECONDS)
    averager.shutdown()
    dht.shutdown()


# ---- server-based systems


def flower(parameters, workers, rounds):
    import peer_flower
    return of_server(rounds, peer_flower.measured(parameters, workers, SKIPPED + rounds, SECONDS, used_seconds))


def nvflare(parameters, workers, rounds):
    import peer_nvflare
    return of_server(rounds, peer_nvflare.measured(parameters, workers, SKIPPED + rounds, used_seconds))


def of_server(rounds, measured):
    """Its processes are not ours, so their CPU seconds, including start-up, are spread over the rounds."""
    seconds, cpu = measured
    return {"seconds": seconds[SKIPPED:], "cpu_seconds": [cpu / len(seconds)] * rounds}


KINDS = {"flower": flower, "nvflare": nvflare, "gloo": gloo, "torchft": torchft, "hivemind": hivemind}

if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    print(json.dumps(KINDS[kind](*map(int, numbers))))
