"""Checks of tools/deploy/gke; tools/scripts/manifests-test.sh calls it."""

import copy
import pathlib
import re
import shlex
import subprocess
import sys

import kubernetes_validate
import yaml

FOLDER = pathlib.Path("tools/deploy/gke")
# The first release with sidecars, and the newest whose schema is there.
VERSIONS = ["1.29", "1.37"]


def load():
    """All documents, each with its file's name."""
    files = sorted(FOLDER.glob("*.yaml"))
    assert len(files) == 3, files
    return [(file.name, document) for file in files for document in yaml.safe_load_all(file.read_text())]


def validate(document):
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)


def refuses(document, change):
    """Returns whether a wrong document is refused."""
    worse = copy.deepcopy(document)
    change(worse["spec"]["template"]["spec"])
    try:
        validate(worse)
    except kubernetes_validate.ValidationError:
        return True
    return False


def check_schema(documents):
    for name, document in documents:
        validate(document)
        print(f"{name}: {document['kind']} {document['metadata']['name']} matches the schema")
    job = next(document for _, document in documents if document["kind"] == "Job")
    assert refuses(job, lambda pod: pod.update(initContainer=[])), "a misspelt name is not seen"
    assert refuses(job, lambda pod: pod["containers"][0].update(args="one")), "a wrong type is not seen"


def pods(documents):
    return [(name, document["spec"]["template"]) for name, document in documents if "template" in document.get("spec", {})]


def check_pods(documents):
    begin = [template["spec"]["initContainers"] for _, template in pods(documents)]
    assert all(containers == begin[0] for containers in begin), "pods begin differently"
    assert [container["name"] for container in begin[0]] == ["plugin", "rxdm", "doctor"]
    assert begin[0][1]["restartPolicy"] == "Always", "RxDM is no sidecar"
    for name, template in pods(documents):
        pod = template["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = {
            mount["name"]
            for container in pod["initContainers"] + pod["containers"]
            for mount in container.get("volumeMounts", [])
        }
        assert volumes == mounts, f"{name}: {volumes ^ mounts}"
        interfaces = yaml.safe_load(template["metadata"]["annotations"]["networking.gke.io/interfaces"])
        assert [each["interfaceName"] for each in interfaces] == [f"eth{number}" for number in range(5)]


def check_services(documents):
    for name, service in documents:
        if service["kind"] != "Service":
            continue
        selector = service["spec"]["selector"]
        # A Job's pods are labelled with its name by Kubernetes.
        labels = [template["metadata"]["labels"] for _, template in pods(documents)]
        labels += [{"job-name": each["metadata"]["name"]} for _, each in documents if each["kind"] == "Job"]
        assert any(selector.items() <= each.items() for each in labels), f"{name}: no label matches the selector"


def check_commands(documents, tcpx):
    """Has a shell read every line, and the command every flag: --help comes after all flags were understood."""
    seen = 0
    for name, template in pods(documents):
        for container in template["spec"]["initContainers"] + template["spec"]["containers"]:
            if container.get("command") != ["sh", "-c"]:
                continue
            [line] = container["args"]
            subprocess.run(["sh", "-n", "-c", line], check=True)
            for words in re.findall(r"(?:exec |\(|; )(tcpx [^;)]*)", line):
                words = [tcpx, *shlex.split(words)[1:], "--help"]
                ended = subprocess.run(words, capture_output=True, text=True)
                assert ended.returncode == 0, f"{name}: {words}: {ended.stderr}"
                seen += 1
    assert seen == 11, seen


def check_programs(documents):
    for name, document in documents:
        if document["kind"] == "ConfigMap":
            for file, text in document["data"].items():
                compile(text, f"{name}: {file}", "exec")


def main(tcpx):
    documents = load()
    check_schema(documents)
    check_pods(documents)
    check_services(documents)
    check_commands(documents, tcpx)
    check_programs(documents)
    print("tools/deploy/gke is consistent")


main(*sys.argv[1:])
