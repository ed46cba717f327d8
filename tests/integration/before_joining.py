# SPDX-License-Identifier: Apache-2.0
"""Checks before joining, with the real programs: `atoll-worker check` and `atoll doctor` on a working connection and
on broken ones."""
import http.server
import threading

from atoll_harness import check, equal, lasting_port, main

REFUSED = 3


def checked(scene, coordinator, *options, name="a", code=0):
    """The output of `atoll-worker check`, as (verdict, check, message)."""
    ran = scene.run("atoll-worker", "check", "--name", name, "--coordinator", f"127.0.0.1:{coordinator.ports['control']}",
                    "--coordinator-bulk", f"127.0.0.1:{coordinator.ports['bulk']}", "--device", "cpu", "--log-level", "error",
                    "--cache-dir", scene.path(f"cache-{name}"), *options, code=code)
    return [tuple(line.split(None, 2)) for line in ran.out.splitlines()]


def said(findings, what, verdict="ok"):
    """The messages of one check, all of which have that verdict."""
    of_it = [finding for finding in findings if finding[1] == what]
    check(of_it and all(finding[0] == verdict for finding in of_it), f"{what} is not {verdict}: {findings}")
    return [sentence for _, _, sentence in of_it]


def plaintext(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    findings = checked(scene, coordinator)
    for what in ("folders", "device", "identity", "reach", "coordinator", "clock", "link"):
        said(findings, what)
    equal(len(said(findings, "reach")), 2, "ports looked at")
    check("no job to check" in said(findings, "job")[0], findings)

    scene.submit("tiny", manifest)
    findings = checked(scene, coordinator)
    check("tiny: 0.0" in said(findings, "job")[0], findings)
    check("tiny takes " in said(findings, "memory")[0], findings)
    # The check respects the worker's limits on memory and on the link.
    findings = checked(scene, coordinator, "--memory-limit", "100kB", code=REFUSED)
    check("tiny: " in said(findings, "memory", "failed")[0], findings)
    findings = checked(scene, coordinator, "--upload-limit", "8Mbit/s")
    check(said(findings, "link")[0].endswith("upwards, within --upload-limit"), findings)
    rate, unit = said(findings, "link")[0].split()[:2]
    check(unit == "Mbit/s" and float(rate) < 20, f"the cap of 8 Mbit/s was not kept: {findings}")
    # No worker has joined.
    check("workers" not in scene.atoll("-o", "json", "worker", "list").json(), "a check has joined")

    ports = f"127.0.0.1:{coordinator.ports['bulk']}"
    doctor = scene.atoll("-o", "json", "doctor", "--bulk-endpoint", ports).json()
    check(doctor["good"] and {"reach", "coordinator", "clock", "link", "job", "memory"} <= {f["check"] for f in doctor["findings"]}, doctor)
    check("ok       reach" in scene.atoll("doctor", "--bulk-endpoint", ports).out, "no table")
    coordinator.kill()
    doctor = scene.atoll("-o", "json", "doctor", "--bulk-endpoint", ports, code=REFUSED).json()
    equal([doctor["good"], doctor["findings"][-1]["verdict"]], [False, "failed"], "a coordinator that is not there")
    check("cannot connect to 127.0.0.1:" in doctor["findings"][-1]["sentence"], doctor)


def mutual_tls(scene):
    admin = scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, name="trusted", state="trusted-state",
                                    ports={"control": 0, "bulk": 0, "admin": 0})
    token = scene.path("token")
    token.write_text(scene.atoll("token", "create").out)
    enrol = ["--coordinator-enroll", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token", token]
    findings = checked(scene, coordinator, *enrol, name="b")
    spent, good = said(findings, "identity")
    check(f"was used to write {scene.path('cache-b/identity.pem')}: start the worker with that --identity" in spent, findings)
    check("worker 'b', valid until" in good, findings)
    check("speaks TLSv1.3 and accepts our certificate" in said(findings, "tls")[0], findings)
    said(findings, "link")
    check("the certificate is renewed" in said(findings, "renewal")[0], findings)
    # The token was used once. Without the port for certificate renewal everything works, for a day.
    findings = checked(scene, coordinator, "--identity", scene.path("cache-b/identity.pem"), "--coordinator-enroll", f"127.0.0.1:{lasting_port()}", name="b")
    check("allow TCP connections to it, or give its address with --coordinator-enroll" in said(findings, "renewal", "warning")[0], findings)
    equal(len(said(findings, "identity")), 1, "lines about an identity that was there")
    equal(scene.atoll("-o", "json", "token", "list").json()["tokens"][0]["used"], 1, "enrolments")

    # Another authority's identity, and plaintext to a TLS port.
    other = scene.atoll("ca", "init", scene.path("other")).out.strip()
    scene.identity = other
    bulk = ["--bulk-endpoint", f"127.0.0.1:{coordinator.ports['bulk']}"]
    doctor = scene.atoll("-o", "json", "doctor", *bulk, code=REFUSED).json()
    equal(doctor["findings"][-1]["check"], "tls", "what fails")
    check("was not issued to a coordinator by our authority" in doctor["findings"][-1]["sentence"], doctor)
    scene.identity = None
    doctor = scene.atoll("-o", "json", "doctor", *bulk, code=REFUSED).json()
    equal(doctor["findings"][-1]["check"], "tls", "what fails without an identity")
    check("uses TLS and accepts only clients with a certificate" in doctor["findings"][-1]["sentence"], doctor)

    # A viewer may look and not measure.
    scene.identity = admin
    viewer = scene.path("viewer.pem")
    scene.atoll("ca", "issue", scene.path("trust"), "--role", "viewer", "--name", "eve", "--out", viewer)
    scene.identity = viewer
    doctor = scene.atoll("-o", "json", "doctor", *bulk).json()
    link = [f for f in doctor["findings"] if f["check"] == "link"]
    check(doctor["good"] and link[0]["verdict"] == "warning" and "not measured" in link[0]["sentence"], doctor)
    scene.identity = None
    scene.endpoint = None


def not_a_coordinator(scene):
    """Another service listens on the port."""
    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    doctor = scene.atoll("-o", "json", "--endpoint", address, "doctor", "--bulk-endpoint", address, code=REFUSED).json()
    equal(doctor["findings"][-1]["check"], "coordinator", "what fails on a web server")
    server.shutdown()


def test(scene):
    plaintext(scene)
    mutual_tls(scene)
    not_a_coordinator(scene)


main(test)
