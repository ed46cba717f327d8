# SPDX-License-Identifier: Apache-2.0
"""Crash enumeration on real processes: finds every call by which a real coordinator changes its disk, and plays each
fault at each of these calls.

durable_calls.cc records one run (crash_script.py). If ptrace is permitted strace watches the run too, and must see no
other changes. From the record disk_images.py creates the disk after each call without running anything: after a kill,
after a power cut that left only flushed data, and after a power cut that left any part of the rest. On each image
verify and replay must succeed, a coordinator must start, and everything reported by then must exist. If all points
are played each of these runs is finished, otherwise some are. The other faults need separate runs: the process is
killed before or after the call, the call fails with EIO or ENOSPC, or a write is short. The coordinator must either
continue or stop with a message that names the file, the failure and the remedy. The run is then finished, with the
same requirements.

ATOLL_CRASH_POINTS: the number of points to play, spread over calls and faults; 0 plays all. ATOLL_CRASH_SEED: selects
the points, and the result of a torn power cut. ATOLL_CRASH_ONLY=N:FAULT plays one.
"""
import collections
import multiprocessing
import os
import random
import shutil

from atoll_harness import Failure, Scene, check, die_with_parent, equal, main, wait_for
from crash_script import RESTART_AT, Run, Told, check_job, check_state
from disk_images import Disk
from traced_calls import compare, strace_command, why_not_traced

POINTS = 100
IMAGES = {"killed": Disk.write_killed, "power cut": Disk.write_cut, "torn power cut": Disk.write_torn}
LIVE = {"killed-before": None, "killed-after": None, "EIO": None, "ENOSPC": ("create", "write", "mkdir", "rename", "link", "sync"),
        "short": ("write",)}  # fault: the calls that it can affect, None for all
LIVE_SHARE = 5  # one of this many points is a separate run, if not all are played
FINISHED_SHARE = 10  # and one of this many images is run to its end, if not all are played
JOBS_OF_ALL = 5  # points in parallel if all are played: a separate run mostly waits
PORT_TAKEN = "Address already in use"
SEED = int(os.environ.get("ATOLL_CRASH_SEED", "1"))


def points_asked():
    return int(os.environ.get("ATOLL_CRASH_POINTS", POINTS))


recorded = None  # the recorded run, for the processes that play points


class Recorded:
    def __init__(self, run, data):
        self.calls, self.data, self.hashes = run.calls(), data, run.told().hashes
        self.answers = run.answers

    def told_by(self, number):
        """Everything reported when this number of calls had been made."""
        return Told(self.calls[:number], [answer for made, answer in self.answers if made <= number])


def record(scene, data):
    """The run, undisturbed except for its restart."""
    traces = []
    untraced = why_not_traced(scene.directory)

    def through():
        traces.append(scene.path(f"strace-{len(traces)}"))
        return strace_command(traces[-1])
    run = Run(scene, data, through=(lambda: ()) if untraced else through)
    run.play()
    calls = run.calls()
    equal([call.number for call in calls], list(range(len(calls))), "the numbers of the calls")
    equal(run.outcomes, ["killed"], "what befell the coordinator")
    check(RESTART_AT + 100 < len(calls), f"only {len(calls)} calls were found, {RESTART_AT} of them before the restart")
    kinds = collections.Counter(call.kind for call in calls)
    print(f"{len(calls)} calls change the disk: {', '.join(f'{n} {kind}' for kind, n in kinds.most_common())}")
    if untraced:
        print(f"not compared with strace: {untraced}")
    else:
        print(f"strace has seen {compare(traces, scene.path('disk'), calls)} of them, and no other")
    Disk(calls).write_killed(scene.path("image"))
    same_trees(scene.path("disk"), scene.path("image"))
    return Recorded(run, data)


def same_trees(left, right):
    """The calls, applied to an empty disk, give the actual files."""
    trees = [{file.relative_to(top): file.read_bytes() if file.is_file() else None for file in top.rglob("*")} for top in (left, right)]
    differ = [name for name in trees[0].keys() | trees[1].keys() if trees[0].get(name, 0) != trees[1].get(name, 0)]
    equal(differ, [], "what differs on the disk and in its image")


def all_points(calls):
    """Fault by fault, in the order of the calls. An image number N is of the disk before call N."""
    points = {fault: list(range(len(calls) + 1)) for fault in IMAGES}
    return points | {fault: [call.number for call in calls if kinds is None or call.kind in kinds] for fault, kinds in LIVE.items()}


def spread(numbers, wanted, dice):
    """Selects this number, one from each stretch of equal length."""
    return [dice.choice(numbers[i * len(numbers) // wanted:(i + 1) * len(numbers) // wanted]) for i in range(min(wanted, len(numbers)))]


def chosen_points(calls):
    points = all_points(calls)
    if "ATOLL_CRASH_ONLY" in os.environ:
        number, _, fault = os.environ["ATOLL_CRASH_ONLY"].partition(":")
        return {fault: [int(number)]}
    wanted = points_asked()
    if wanted == 0:
        return points
    dice, live = random.Random(SEED), max(len(LIVE), wanted // LIVE_SHARE)
    share = {fault: live // len(LIVE) for fault in LIVE}
    share |= {fault: (wanted - live + i) // len(IMAGES) for i, fault in enumerate(IMAGES)}
    return {fault: spread(numbers, share[fault], dice) for fault, numbers in points.items()}


def play_image(scene, number, fault, finish):
    """Returns the outcome."""
    dice = (random.Random(f"{SEED} {number} {fault}"),) if fault == "torn power cut" else ()
    IMAGES[fault](Disk(recorded.calls[:number]), scene.path("disk"), *dice)
    told, run = recorded.told_by(number), Run(scene, recorded.data)
    run.faults = []
    check_state(scene, "disk/state", told)
    run.start()
    wait_for("the coordinator", run.answering, 30, [run.coordinator])
    job = wait_for("the job", run.job, 30, [run.coordinator]) if told.job else run.job()
    if told.version > 0:
        job = wait_for("the versions", lambda: "fragments" in run.job() and run.job(), 30, [run.coordinator])
    check_job(job, told, recorded.hashes)
    if finish:
        run.play()
        return "finished"
    equal(run.coordinator.terminate(), 0, "the exit status of the coordinator")
    check_state(scene, "disk/state", told)
    return "started"


def play_live(scene, number, fault):
    run = Run(scene, recorded.data, number, fault)
    run.play()
    calls = run.calls()
    met = [call for call in calls if call.number == number and call.fault]
    if not met:
        check(number > len(calls) - 50, f"call {number} of {len(calls)} did not meet its fault")
        return "was not met: the run was shorter"
    return "; ".join(run.outcomes[number > RESTART_AT:]) or "went on"


def play(point):
    """(fault, outcome, None) or (fault, point, error). Repeats once if another parallel run had taken the port of a
    restart."""
    played = play_once(point)
    return play_once(point) if PORT_TAKEN in (played[2] or "") else played


def play_once(point):
    number, fault, finish = point
    directory = recorded.data.parent / f"{fault.replace(' ', '-')}-{number}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    scene, failure = Scene(directory), True
    try:
        outcome = play_live(scene, number, fault) if fault in LIVE else play_image(scene, number, fault, finish)
        failure = False
        return fault, outcome, None
    except Exception as wrong:
        at = recorded.calls[number] if number < len(recorded.calls) else "the end"
        return fault, f"call {number} ({at}), {fault}; alone: ATOLL_CRASH_ONLY='{number}:{fault}'", f"{type(wrong).__name__}: {wrong}"
    finally:
        scene.close(failure)
        if not failure:
            shutil.rmtree(directory)


def begin(what):
    global recorded
    recorded = what
    die_with_parent()


def test(scene):
    scene.corpus(text_bytes=20_000)
    what = record(scene, scene.path("data"))
    points = chosen_points(what.calls)
    every = sum(map(len, all_points(what.calls).values()))
    share = FINISHED_SHARE if points_asked() else 1
    images = [(n, fault, i % share == share // 2) for fault in IMAGES for i, n in enumerate(points.get(fault, []))]
    runs = [(n, fault, True) for fault in LIVE for n in points.get(fault, [])]
    outcomes, wrong = collections.Counter(), []
    with multiprocessing.Pool(2 if points_asked() else JOBS_OF_ALL, begin, (what,)) as pool:
        for fault, outcome, failure in pool.imap_unordered(play, runs + images):
            if failure is not None:
                wrong.append(f"{outcome}: {failure}")
            outcomes[fault, outcome if failure is None else "WRONG"] += 1
    print(f"{len(images) + len(runs)} of {every} points played")
    for fault in points:
        told = ", ".join(f"{outcome} {n}" for (of, outcome), n in sorted(outcomes.items()) if of == fault)
        print(f"  {fault:15} {len(points[fault]):5}: {told}")
    if wrong:
        raise Failure(f"{len(wrong)} points: " + "\n  ".join(wrong))
    # On a loaded machine commits share flushes, so that a run makes fewer calls than the recorded one.
    check(sum(n for (_, outcome), n in outcomes.items() if "not met" in outcome) * 5 <= len(runs), "too many faults were not met")


main(test)
