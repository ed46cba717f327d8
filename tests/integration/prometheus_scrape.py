# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a real run, coordinator and worker; promtool finds no fault in the pages."""
import json
import shutil
import subprocess
import urllib.parse

from atoll_harness import LISTEN, Skip, check, equal, http_get, main, sockets_of, wait_for

CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs:
  - job_name: coordinator
    honor_labels: true
    static_configs: [{{targets: ["127.0.0.1:{coordinator}"]}}]
  - job_name: worker
    static_configs: [{{targets: ["127.0.0.1:{worker}"]}}]
"""


def start_prometheus(scene, coordinator_port, worker_port):
    """The address of its API."""
    config = scene.path("prometheus.yml")
    config.write_text(CONFIG.format(coordinator=coordinator_port, worker=worker_port))
    checked = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True)
    equal(checked.returncode, 0, f"promtool check config: {checked.stdout}{checked.stderr}")
    prometheus = scene.start("prometheus", ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={scene.path('tsdb')}",
                                            "--web.listen-address=127.0.0.1:0"])
    port = wait_for("the port of prometheus", lambda: [s[0] for s in sockets_of(prometheus.pid) if s[2] == LISTEN], 60, [prometheus])[0]
    return f"http://127.0.0.1:{port}"


def query(api, expression):
    answer = json.loads(http_get(f"{api}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
    equal(answer["status"], "success", f"the answer to {expression}")
    return answer["data"]["result"]


def check_page(page, who):
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
    equal((checked.returncode, checked.stdout + checked.stderr), (0, ""), f"promtool check metrics on the page of the {who}")


def test(scene):
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed; scripts/setup installs it")
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data, "--heartbeat-interval", "300ms")
    worker = scene.worker("a", coordinator, *data)
    scene.submit("job", manifest, steps=1_000_000, evaluation={"every_rounds": 5, "max_tokens": 4096})
    api = start_prometheus(scene, coordinator.ports["admin"], worker.admin_port())
    scene.wait_round("job", 6, alive=[worker])

    wanted = [
        'atoll_round{job="job",fragment="0"} > 0',
        'atoll_job_train_loss_nats{job="job"} > 0',
        'atoll_job_evaluation_loss_nats{job="job"} > 0',
        'atoll_job_committed_tokens{job="job"} > 0',
        'atoll_rounds_completed_total{job="job",outcome="committed"} > 0',
        'atoll_round_duration_seconds_count{job="job"} > 0',
        'atoll_transfer_bytes_total{job="job",worker="a",direction="upload",kind="contribution"} > 0',
        'atoll_transfer_bytes_total{job="job",worker="a",direction="download",kind="update"} > 0',
        'atoll_workers{job="job",state="training"} == 1',
        'atoll_workers{job="job",state="missing"} == 0',
        'time() - atoll_round_last_success_timestamp_seconds{job="job"} < 300',
        'atoll_ledger_commit_duration_seconds_count > 0',
        'atoll_train_loss_nats{job="job",worker="a"} > 0',  # from heartbeats
        'atoll_train_loss_nats{job="worker"} > 0',  # from the worker itself
        'atoll_trained_tokens_total{job="worker"} > 0',
        'atoll_step_duration_seconds_count{job="worker"} > 0',
        'count(process_resident_memory_bytes > 1e6) == 2',
        'sum(up) == 2',
    ]
    for expression in wanted:
        wait_for(f"{expression} in Prometheus", lambda: query(api, expression), 60, [coordinator, worker])
    check_page(coordinator.page("/metrics"), "coordinator")
    check_page(worker.page("/metrics"), "worker")
    for name in ("/healthz", "/readyz"):
        equal(worker.page(name), "ok\n", f"{name} of the worker")
    families = {line.split()[2] for line in coordinator.page("/metrics").splitlines() if line.startswith("# TYPE")}
    check(all(name.startswith(("atoll_", "process_")) for name in families), f"names without the prefix: {families}")


main(test)
