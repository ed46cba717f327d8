#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana dashboards beside it: fleet.json, job.json, worker.json. They are plain JSON to import as they are."""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "$datasource"}
PER_ROW = 3
WIDTH, HEIGHT = 24 // PER_ROW, 8


def panel(title, unit, *targets, kind="timeseries", description=""):
    """targets: (PromQL, legend)."""
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
                    for i, (expression, legend) in enumerate(targets)],
    }


def variable(name, metric):
    return {"type": "query", "name": name, "label": name, "datasource": SOURCE, "query": f"label_values({metric}, {name})",
            "definition": f"label_values({metric}, {name})", "refresh": 2, "includeAll": True, "multi": True,
            "current": {"text": "All", "value": "$__all"}, "sort": 1}


def dashboard(uid, title, variables, panels):
    for i, one in enumerate(panels):
        one["id"] = i + 1
        one["gridPos"] = {"w": WIDTH, "h": HEIGHT, "x": WIDTH * (i % PER_ROW), "y": HEIGHT * (i // PER_ROW)}
    datasource = {"type": "datasource", "name": "datasource", "label": "data source", "query": "prometheus", "current": {}}
    return {"uid": uid, "title": title, "tags": ["atoll"], "schemaVersion": 39, "version": 1, "editable": True, "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"}, "timezone": "", "annotations": {"list": []},
            "templating": {"list": [datasource, *variables]}, "panels": panels}


def fleet():
    return dashboard("atoll-fleet", "Atoll: fleet", [variable("worker", "atoll_heartbeat_age_seconds")], [
        panel("Jobs by state", "none", ("atoll_jobs > 0", "{{state}}")),
        panel("Workers of jobs", "none", ("atoll_workers", "{{job}} {{state}}")),
        panel("Stopped jobs", "none", ("atoll_job_stopped", "{{job}}"), description="1: something has to be mended before it goes on."),
        panel("Time since a worker was heard", "s", ('atoll_heartbeat_age_seconds{worker=~"$worker"}', "{{worker}}")),
        panel("Boot number of the coordinator", "none", ("atoll_boot_number", "boot")),
        panel("Free share of the state disk", "percentunit", ("atoll_disk_free_ratio", "free")),
        panel("Ledger commits, 99th percentile", "s",
              ("histogram_quantile(0.99, sum by (le) (rate(atoll_ledger_commit_duration_seconds_bucket[5m])))", "p99")),
        panel("Payload on the wire", "Bps",
              ("sum by (job, direction) (rate(atoll_transfer_bytes_total[5m]))", "{{job}} {{direction}}")),
        panel("Contributions refused in an hour", "none",
              ("sum by (job, reason) (increase(atoll_contributions_rejected_total[1h]))", "{{job}} {{reason}}")),
    ])


def job():
    mine = 'job=~"$job"'
    return dashboard("atoll-job", "Atoll: job", [variable("job", "atoll_job_clock_steps")], [
        panel("Loss", "none", (f"atoll_job_train_loss_nats{{{mine}}}", "{{job}} training"),
              (f"atoll_job_evaluation_loss_nats{{{mine}}}", "{{job}} held out"), description="Nats per token."),
        panel("Tokens per second, committed", "none", (f"deriv(atoll_job_committed_tokens{{{mine}}}[10m])", "{{job}}")),
        panel("Job clock", "none", (f"atoll_job_clock_steps{{{mine}}}", "{{job}}"), description="Inner steps."),
        panel("Mean time of a round", "s", (f"rate(atoll_round_duration_seconds_sum{{{mine}}}[30m]) / "
                                            f"rate(atoll_round_duration_seconds_count{{{mine}}}[30m])", "{{job}}")),
        panel("Time since the newest commit", "s", (f"time() - atoll_round_last_success_timestamp_seconds{{{mine}}}", "{{job}}")),
        panel("Contributions in the newest round", "none", (f"atoll_round_participants{{{mine}}}", "{{job}}")),
        panel("Share of rounds by worker", "percentunit", (f"atoll_participation_ratio{{{mine}}}", "{{job}} {{worker}}")),
        panel("Cosine to the merge", "none", (f"avg by (job, worker) (atoll_contribution_cosine_ratio{{{mine}}})", "{{job}} {{worker}}")),
        panel("Norm of contributions", "none", (f"avg by (job, worker) (atoll_contribution_norm{{{mine}}})", "{{job}} {{worker}}")),
        panel("Effective outer step", "none", (f"avg by (job) (atoll_outer_step_gain_ratio{{{mine}}})", "{{job}}")),
        panel("Alignment to the momentum", "none", (f"avg by (job) (atoll_momentum_alignment_ratio{{{mine}}})", "{{job}}"),
              description="Below 0 the workers pull back what the momentum still pushes."),
        panel("Age of the newest checkpoint", "s", (f"time() - atoll_checkpoint_last_success_timestamp_seconds{{{mine}}}", "{{job}}")),
    ])


def worker():
    mine = 'worker=~"$worker"'
    return dashboard("atoll-worker", "Atoll: worker", [variable("worker", "atoll_heartbeat_age_seconds")], [
        panel("Compute utilization", "percentunit", (f"atoll_compute_utilization_ratio{{{mine}}}", "{{worker}}")),
        panel("Tokens per second", "none", (f"atoll_tokens_per_second{{{mine}}}", "{{worker}}")),
        panel("Training loss", "none", (f"atoll_train_loss_nats{{{mine}}}", "{{worker}}"), description="Nats per token, newest step."),
        panel("Gradient norm", "none", (f"atoll_gradient_norm{{{mine}}}", "{{worker}}")),
        panel("Learning rate", "none", (f"atoll_learning_rate{{{mine}}}", "{{worker}}")),
        panel("Steps undone as not finite", "none", (f"increase(atoll_non_finite_steps_total{{{mine}}}[1h])", "{{worker}}")),
        panel("Waiting for updates", "percentunit", (f"rate(atoll_sync_wait_seconds_total{{{mine}}}[5m])", "{{worker}}"),
              description="Share of wall time."),
        panel("Waiting for samples", "percentunit", (f"rate(atoll_data_wait_seconds_total{{{mine}}}[5m])", "{{worker}}"),
              description="Share of wall time."),
        panel("Rates of transfers", "Bps", (f"atoll_upload_bytes_per_second{{{mine}}}", "{{worker}} up"),
              (f"atoll_download_bytes_per_second{{{mine}}}", "{{worker}} down")),
        panel("Until the certificate ends", "s", (f"atoll_certificate_end_timestamp_seconds{{{mine}}} - time()", "{{worker}}"),
              description="Renewed at 12 hours."),
    ])


def files():
    """{name: text}"""
    return {f"{name}.json": json.dumps(made, indent=1) + "\n"
            for name, made in (("fleet", fleet()), ("job", job()), ("worker", worker()))}


if __name__ == "__main__":
    for file_name, text in files().items():
        (HERE / file_name).write_text(text)
        print(f"deploy/grafana/{file_name}")
