"""Real links that are narrow, long, lossy or cut: two workers, one of them behind an emulated link (tun_link.py), with mutual TLS as
over the open internet. On a bad link the job ends as planned with both in every round and nobody is lost; a worker that is cut off, both
ways or one way, is lost, the run goes on, and it comes back by itself. The ledger balances all the while, and the audits find nothing."""
import time

from atoll_harness import Skip, check, check_balance, equal, main, wait_for
from tun_link import TunLink, available

NEAR, FAR = "near", "far"
MEGABYTES = 2.3  # of a contribution, and half of it on the way down
ROUNDS, INNER_STEPS = 5, 10
LINKS = {  # bits per second each way, delay one way in seconds, share of packets that are lost
    "narrow": (10e6, 0.01, 0.0),
    "long": (100e6, 0.1, 0.01),
    "lossy": (100e6, 0.02, 0.05),
}
CUTS = {"both-ways": {"up", "down"}, "upwards": {"up"}, "downwards": {"down"}}


def job_on(scene, name, manifest, steps, least):
    return scene.submit(name, manifest, steps=steps, workers={"min": least, "max": 2, "planned": 2}, model={"layers": 2, "hidden_size": 256},
                        sync={"inner_steps": INNER_STEPS, "upload_codec": "fp32", "download_codec": "bf16"})


def texts(scene, job, kind):
    return [event["text"] for event in scene.logged_events(job) if event["kind"] == kind]


def on_a_bad_link(scene, link, name, manifest):
    link.rate_bits, link.delay_seconds, link.loss = LINKS[name]
    before = dict(link.carried)
    job_on(scene, name, manifest, ROUNDS * INNER_STEPS, least=2)
    scene.wait_end(name, seconds=300)
    equal(texts(scene, name, "worker lost"), [], f"who was lost on the {name} link")
    rounds = texts(scene, name, "round committed")
    both = [text for text in rounds if NEAR in text and FAR in text]
    check(len(both) >= ROUNDS - 2, f"only {len(both)} of {len(rounds)} rounds on the {name} link have both workers: {rounds}")
    up = (link.carried["up"] - before["up"]) / 1e6
    print(f"{name}: {len(both)} of {len(rounds)} rounds with both, {up:.1f} MB up")
    check(up > len(both) * MEGABYTES * 0.9, f"{up:.1f} MB went up over the {name} link: the worker took another way")


def cut_off(scene, link, name, manifest):
    link.rate_bits, link.delay_seconds, link.loss = 100e6, 0.01, 0.0
    job_on(scene, name, manifest, 100_000, least=1)
    both = lambda: [t for t in texts(scene, name, "round committed") if NEAR in t and FAR in t]
    scene.wait_round(name, 1)
    wait_for("a round with both workers", both, 120)
    link.blocked, cut_at = CUTS[name], time.monotonic()
    wait_for(f"the loss of the worker that is cut off {name}", lambda: texts(scene, name, "worker lost"), 120)
    lost_after = time.monotonic() - cut_at
    equal([t for t in texts(scene, name, "worker lost") if FAR not in t], [], "others that were lost")
    rounds = int(scene.job(name).get("round", 0))
    scene.wait_round(name, rounds + 2, 120)
    known = len(both())
    link.blocked, healed_at = set(), time.monotonic()
    wait_for("a round with the worker that came back", lambda: len(both()) > known, 180)
    print(f"{name}: lost after {lost_after:.1f} s, merged again {time.monotonic() - healed_at:.1f} s after the link was whole")
    check_balance(scene.job(name))
    scene.atoll("job", "cancel", name)


def test(scene):
    if reason := available():
        raise Skip(f"no emulated link: {reason}")
    manifest = scene.corpus(text_bytes=400_000)
    admin = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    for name in (NEAR, FAR):
        scene.atoll("ca", "issue", scene.path("trust"), "--role", "worker", "--name", name, "--out", scene.path(f"{name}.pem"))
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--listen", "0.0.0.0", "--data-root",
                                    scene.path("data"), "--membership-timeout", "6s", "--heartbeat-interval", "1s")
    scene.identity = admin
    link = TunLink()
    try:
        link.ports = {coordinator.ports[kind] for kind in ("control", "bulk", "enroll")}
        options = ["--data-root", scene.path("data"), "--identity"]
        near = scene.worker(NEAR, coordinator, *options, scene.path(f"{NEAR}.pem"))
        far = scene.worker(FAR, coordinator, *options, scene.path(f"{FAR}.pem"), host=link.there)
        for name in LINKS:
            on_a_bad_link(scene, link, name, manifest)
        for name in CUTS:
            cut_off(scene, link, name, manifest)
        for worker in (near, far):
            equal(worker.terminate(), 0, f"the end of {worker.name}")
        equal(coordinator.terminate(), 0, "the end of the coordinator")
    finally:
        link.close()
    scene.verify()
    scene.replay()


main(test)
