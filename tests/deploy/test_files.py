"""What stands in deploy/: every file is right by its own checker, and names only what the daemon has.

`make tools` installs the checkers; what is missing is skipped, with the reason.
"""
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

import harness

DEPLOY = harness.ROOT / "deploy"
TOOLS = harness.ROOT / "build/tools"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = sorted(p.parent.name for p in KUBERNETES.glob("overlays/*/kustomization.yaml"))
# What this machine's cluster would have to be taught, and no published schema here describes.
CUSTOM = {"ServiceMonitor", "PrometheusRule", "ScaledObject", "InferencePool", "HTTPRoute", "ServingRuntime",
          "InferenceService"}
DOCUMENTS = [p for p in sorted(DEPLOY.rglob("*")) if p.is_file() and p.name != "options.md" and "__pycache__" not in p.parts]


def tool(name):
    """Path of a checker, from `make tools` or from Debian."""
    places = [*TOOLS.glob(f"*/bin/{name}"), TOOLS / name]
    path = next((p for p in places if p.exists()), None) or shutil.which(name) or shutil.which(name, path="/usr/sbin")
    return path or pytest.skip(f"{name} is not installed: `make tools`")


def check(name, *args, status=0, **kw):
    r = subprocess.run([tool(name), *map(str, args)], cwd=harness.ROOT, capture_output=True, text=True, **kw)
    assert r.returncode == status, r.stdout + r.stderr
    return r.stdout + r.stderr


def render(overlay):
    """The objects of one overlay."""
    return list(yaml.safe_load_all(check("kubectl", "kustomize", KUBERNETES / "overlays" / overlay)))


# ---- form ----


def test_containerfile():
    check("hadolint", DEPLOY / "Containerfile")


def test_yaml():
    rules = "{extends: default, rules: {document-start: disable, line-length: {max: 160, allow-non-breakable-words: true}," \
            " braces: {max-spaces-inside: 1}, truthy: {check-keys: false}}}"
    check("yamllint", "--strict", "-d", rules, *DEPLOY.rglob("*.y*ml"))


def test_shell_scripts():
    scripts = [p for p in DOCUMENTS if p.read_bytes()[:9] == b"#!/bin/sh"]
    assert {"image", "base", "closure", "packages", "try"} <= {p.name for p in scripts}
    check("shellcheck", *scripts)


def test_compose():
    check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {n for n, s in services.items() if s.get("profiles") == ["replicas"]} == {"replica-a", "replica-b", "haproxy", "nginx"}
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).exists(), (name, volume)


def test_prometheus_rules():
    folder = DEPLOY / "monitoring"
    check("promtool", "check", "rules", folder / "alerts.yml")
    check("promtool", "check", "config", folder / "prometheus.yml")
    check("promtool", "test", "rules", folder / "alerts_test.yml")


def test_every_alert_is_tested():
    rules = yaml.safe_load((DEPLOY / "monitoring/alerts.yml").read_text())["groups"][0]["rules"]
    text = (DEPLOY / "monitoring/alerts_test.yml").read_text()
    fires = set(re.findall(r'alertname="(\w+)"', text)) | set(re.findall(r"alertname: (\w+)\n +exp_alerts", text))
    assert {r["alert"] for r in rules} == fires
    assert all(r["annotations"]["summary"] and r["annotations"]["action"] for r in rules)


def test_own_metrics_follow_the_conventions(daemon):
    d = daemon()
    d.complete(prompt="Once", max_tokens=2)
    check("promtool", "check", "metrics", input=d.get("/metrics").text)


def test_dashboard_queries_parse(tmp_path):
    """Every expression, its variables filled in, as a rule of its own."""
    exprs = dashboard_exprs()
    assert len(exprs) > 20
    rules = [{"record": f"panel:{i}", "expr": re.sub(r"\$__\w+", "5m", e).replace("$model", ".*").replace("$instance", ".*")}
             for i, e in enumerate(exprs)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    check("promtool", "check", "rules", tmp_path / "rules.yml")


def dashboard_exprs():
    board = json.loads((DEPLOY / "monitoring/dashboard.json").read_text())
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
    return [t["expr"] for p in board["panels"] for t in p["targets"]]


def test_infrastructure_rules(tmp_path):
    """checkov over the container file and over what Kustomize makes."""
    if not (TOOLS / "checkov/bin/checkov").exists():
        pytest.skip("checkov is not installed: `make deploy-check`")
    for overlay in OVERLAYS:
        (tmp_path / f"{overlay}.yaml").write_text(check("kubectl", "kustomize", KUBERNETES / "overlays" / overlay))
    shutil.copy(DEPLOY / "Containerfile", tmp_path / "Dockerfile")
    skipped = {
        "CKV_DOCKER_7": "the base is an argument",
        "CKV_K8S_15": "the tag is fixed: what is there need not be pulled again",
        "CKV_K8S_43": "an image that its users build has no digest yet",
        "CKV_K8S_38": "the endpoint picker has to ask the API server",
    }
    check("checkov", "-d", tmp_path, "--framework", "kubernetes", "dockerfile", "--skip-download", "--compact",
                "--quiet", "--skip-check", ",".join(skipped), env={**os.environ, "HOME": str(tmp_path)})


# ---- Kubernetes ----


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlay_is_valid(overlay, tmp_path):
    objects = render(overlay)
    assert {o["kind"] for o in objects} & {"Deployment", "ServingRuntime"}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(o for o in objects if o["kind"] not in CUSTOM))
    if any(o["kind"] not in CUSTOM for o in objects):
        out = check("kubernetes-validate", "--strict", tmp_path / "all.yaml")
        assert "Couldn't find" not in out, out


def daemons(objects):
    """(pod spec, container) of every daemon in rendered objects."""
    for o in objects:
        spec = o.get("spec", {})
        pod = spec.get("template", {}).get("spec") if o["kind"] == "Deployment" else spec if o["kind"] == "ServingRuntime" else None
        for c in (pod or {}).get("containers", []):
            if "trinityd:" in c["image"]:
                yield pod, c


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


@pytest.mark.parametrize("overlay", sorted(set(OVERLAYS) - {"kserve"}))
def test_times_of_a_pod_add_up(overlay):
    """Not ready, drained, ended: all within the grace period, and endpoints learn of it within drain_delay."""
    found = list(daemons(render(overlay)))
    assert found
    for pod, c in found:
        env = {e["name"]: e["value"] for e in c["env"] if "value" in e}
        delay, drain = seconds(env["TRINITYD_DRAIN_DELAY"]), seconds(env["TRINITYD_DRAIN_TIMEOUT"])
        assert pod["terminationGracePeriodSeconds"] >= delay + drain + 10
        ready = c["readinessProbe"]
        assert delay > ready["periodSeconds"] * ready["failureThreshold"]
        assert c["livenessProbe"]["httpGet"]["path"] == "/livez" and ready["httpGet"]["path"] == "/readyz"
        assert c["resources"]["requests"]["memory"] == c["resources"]["limits"]["memory"]
        assert pod["enableServiceLinks"] is False and pod["automountServiceAccountToken"] is False


def test_kubernetes_has_the_same_alerts():
    told = yaml.safe_load((KUBERNETES / "components/monitoring/prometheusrule.yaml").read_text())["spec"]
    assert told == yaml.safe_load((DEPLOY / "monitoring/alerts.yml").read_text())


def test_selectors_find_the_pods():
    for overlay in sorted(set(OVERLAYS) - {"kserve"}):
        objects = render(overlay)
        labels = next(o for o in objects if o["kind"] == "Deployment" and o["metadata"]["name"] == "trinityd")["spec"]["template"]["metadata"]["labels"]
        for o in objects:
            if o["metadata"]["name"] != "trinityd":
                continue
            selector = o["spec"].get("selector") if o["kind"] in ("Service", "InferencePool", "PodDisruptionBudget") else None
            wanted = (selector or {}).get("matchLabels", selector) or {}
            assert wanted.items() <= labels.items(), (overlay, o["kind"])


def test_picker_reads_our_metrics(daemon):
    text = (KUBERNETES / "overlays/gateway/picker-config.yaml").read_text()
    config = yaml.safe_load(text)
    extractor = next(p for p in config["plugins"] if p["type"] == "core-metrics-extractor")["parameters"]
    engine, = extractor["engineConfigs"]
    assert engine["name"] == extractor["defaultEngine"]
    info = re.search(r"^" + engine["cacheInfoSpec"] + r"\{(.*)\} 1$", daemon().get("/metrics").text, re.M)[1]
    assert f'{engine["cacheBlockSizeLabelName"]}="' in info and f'{engine["cacheNumBlocksLabelName"]}="' in info
    refs = {p["pluginRef"] for profile in config["schedulingProfiles"] for p in profile["plugins"]}
    assert refs <= {p.get("name", p["type"]) for p in config["plugins"]}
    label = yaml.safe_load((KUBERNETES / "base/deployment.yaml").read_text())["spec"]["template"]["metadata"]["labels"]
    assert label["llm-d.ai/engine-type"] == engine["name"]


# ---- names ----


def test_every_metric_named_is_in_a_scrape(daemon):
    d = daemon(metrics_compat="vllm")
    d.complete(prompt="Once", max_tokens=2)
    d.get("/nowhere")
    lines = d.get("/metrics").text.splitlines()
    scraped = {re.match(r"[\w:]+", line)[0] for line in lines if line and line[0] != "#"}
    named = {}
    for path in DOCUMENTS:
        if path.suffix not in (".json", ".yml", ".yaml", ".md"):
            continue
        for name in re.findall(r"\b(?:trinityd_[a-z_]+[a-z]|vllm:[a-z_]+)\b", path.read_text()):
            named.setdefault(name, path)
    assert len(named) > 25 and "vllm:num_requests_waiting" in named
    assert {n: str(p) for n, p in named.items() if n not in scraped} == {}


def test_every_option_named_exists():
    helped = "".join(harness.run(*command, "--help").stdout for command in ([], ["check"], ["bench"], ["health"], ["generate"]))
    options = {n.replace("-", "_") for n in re.findall(r"--(?:\[no-\])?([a-z0-9-]+)", helped)} | {"version", "help"}
    used = {}
    for path in DOCUMENTS:
        text = path.read_text(errors="replace")
        for name in re.findall(r"\bTRINITYD_([A-Z_]+)\b", text):
            used.setdefault(name.lower(), path)
        for line in re.findall(r"trinityd.* (?:serve|check|--model).*", text):
            for name in re.findall(r"(?<= )--(?:no-)?([a-z][a-z-]+)", line.split("trinityd", 1)[1].split("|")[0]):
                used.setdefault(name.replace("-", "_"), path)
        for name in re.findall(r"^ +- --([a-z-]+)=", text, re.M) if "trinityd:" in text and "picker" not in path.name else ():
            used.setdefault(name.replace("-", "_"), path)
    # Variables that scripts of ours read themselves.
    own = {"image"}
    assert len(used) > 8
    assert {n: str(p) for n, p in used.items() if n not in options | own} == {}


def test_every_folder_says_what_it_is():
    """A README in each, or in the folder above that names it."""
    for folder in sorted({p.parent for p in DOCUMENTS}):
        readme = next((f / "README.md" for f in (folder, *folder.parents) if (f / "README.md").exists()), None)
        assert readme and DEPLOY in readme.parents, folder
        if readme.parent != folder:
            part = str(folder.relative_to(readme.parent)).split("/")[0]
            assert part in readme.read_text(), (folder, readme)


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if p.suffix == ".md"], ids=lambda p: str(p.relative_to(DEPLOY)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
    helped = subprocess.run(["make", "help"], cwd=harness.ROOT, capture_output=True, text=True, check=True).stdout
    targets = {line.split()[0] for line in helped.splitlines()}
    assert set(re.findall(r"`(?:sudo )?make ([a-z-]+)", path.read_text())) <= targets
