"""The Helm chart gives the manifests in deploy/kubernetes, and refuses values that cannot work. tests/docs/test_deploy.py checks those."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

import onceward
from tools.chart import CHART, FOR_KUBECTL, RENDERED, SIZES, can_render, documents, lint, render

needs_helm = pytest.mark.skipif(not can_render(), reason="needs Helm (https://helm.sh) or pip install helm-python-sdk")


def rendered(size: str) -> list[dict[str, Any]]:
    return documents((RENDERED / f"{size}.yaml").read_text("utf-8"))


def named(size: str, kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in rendered(size) if each["kind"] == kind}


def test_the_manifests_run_the_image_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == onceward.__version__
    pods = [
        each["spec"]["template"]["spec"]
        for size in SIZES
        for each in rendered(size)
        if "template" in each.get("spec", {})
    ]
    assert {pod["containers"][0]["image"] for pod in pods} == {f"onceward:{onceward.__version__}"}


def test_sizes_differ_in_processes_and_in_what_scales() -> None:
    assert {name: each["spec"]["replicas"] for name, each in named("small", "Deployment").items()} == dict.fromkeys(
        ("onceward-web", "onceward-worker", "onceward-scheduler"), 1
    )
    assert named("small", "HorizontalPodAutoscaler") == {}
    for size, most in {"medium": 6, "large": 24}.items():
        scaler = named(size, "HorizontalPodAutoscaler")["onceward-worker"]["spec"]
        assert scaler["maxReplicas"] == most
        assert scaler["metrics"][0]["external"]["metric"]["name"] == "onceward_queue_oldest_due_seconds"
        assert "replicas" not in named(size, "Deployment")["onceward-worker"]["spec"], (
            "it would undo what the autoscaler did"
        )


def test_selectors_find_their_own_pods_only() -> None:
    for size in SIZES:
        deployments = named(size, "Deployment").values()
        pods = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in deployments}
        found = [
            [name for name, labels in pods.items() if selector.items() <= labels.items()]
            for each in (*deployments, *named(size, "PodDisruptionBudget").values())
            for selector in [each["spec"]["selector"]["matchLabels"]]
        ]
        assert found == [[name] for name in (*pods, *named(size, "PodDisruptionBudget"))]
        [service] = named(size, "Service").values()
        assert service["spec"]["selector"].items() <= pods["onceward-web"].items()


@needs_helm
@pytest.mark.parametrize("size", SIZES)
def test_the_chart_renders_what_is_in_the_repository(size: str) -> None:
    values = CHART / f"values-{size}.yaml"
    assert lint(values) == ""
    assert documents(render(values, values=FOR_KUBECTL)) == rendered(size), "run `make chart`"


@needs_helm
def test_options_that_are_off_give_valid_objects() -> None:
    values = {
        "ingress": {"enabled": True, "tlsSecret": "tls"},
        "rehearse": {"enabled": True},
        "image": {"digest": "sha256:" + "a" * 64},
        "workers": {
            "mail": {"replicas": 1, "queues": ["mail", "sms"], "autoscaling": {"enabled": True, "min": 1, "max": 2}}
        },
    }
    found = documents(render(values=values))
    for each in found:
        kubernetes_validate.validate(each, "1.33", strict=True)
    kinds = [each["kind"] for each in found]
    assert (kinds.count("Ingress"), kinds.count("Job"), kinds.count("Deployment")) == (1, 3, 4)
    mail = next(each for each in found if each["metadata"]["name"] == "onceward-mail" and each["kind"] == "Deployment")
    container = mail["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["onceward", "worker", "--queue", "mail", "--queue", "sms"]
    assert container["image"] == "onceward@sha256:" + "a" * 64


@needs_helm
@pytest.mark.parametrize(
    "values",
    [
        {"config": {"ONCEWARD_DATABASE_URL": "postgresql://secret"}},
        {"workers": {"web": {"replicas": 1}}},
        {"wev": {"replicas": 1}},
        {"image": {"digest": "latest"}},
    ],
)
def test_a_value_that_cannot_work_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"schema|values|not"):
        render(values=values)
