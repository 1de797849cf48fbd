"""HTTPS: certificates, versions, and who speaks it."""
import json
import shutil
import signal
import ssl
import subprocess

import pytest

import harness


def certificate(folder, name):
    """A self-signed certificate of the name for 127.0.0.1; returns the two files."""
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    return cert, key


def test_https_and_a_new_certificate(daemon, tmp_path):
    """New connections get the new certificate; those that are open go on."""
    cert, key = certificate(tmp_path, "old")
    d = daemon(tls_cert=cert, tls_key=key)
    assert d.scheme == "https"

    def connect():
        context = ssl.create_default_context(cafile=cert)
        s = context.wrap_socket(d.socket(), server_hostname="127.0.0.1")
        return s, dict(x[0] for x in s.getpeercert()["subject"])["commonName"]

    def ask(s, f):
        body = json.dumps({"prompt": "Once", "max_tokens": 3, "stream": True}).encode()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                  + body)
        status, _, answer = harness.read_reply(f)
        assert status == 200 and answer.endswith(b"data: [DONE]\n\n")

    s, name = connect()
    with s, s.makefile("rb") as f:
        assert name == "old"
        ask(s, f)
        certificate(tmp_path, "new")
        d.signal(signal.SIGHUP)
        d.wait_log("options reloaded")
        ask(s, f)
        s2, name = connect()
        with s2, s2.makefile("rb") as f2:
            assert name == "new"
            ask(s2, f2)
        ask(s, f)
    cert.write_text("nonsense")
    d.signal(signal.SIGHUP)
    d.wait_log("old certificate stays")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_are_refused(daemon, tmp_path):
    """T21: RFC 8996; a client that knows nothing newer than 1.1 gets no connection."""
    cert, key = certificate(tmp_path, "versions")
    d = daemon(tls_cert=cert, tls_key=key)

    def connect(version):
        context = ssl.create_default_context(cafile=cert)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = version
        with d.socket() as s, context.wrap_socket(s, server_hostname="127.0.0.1") as t:
            return t.version()

    assert connect(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert connect(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            connect(version)


def test_the_health_command(daemon, tmp_path):
    """T27: it asks over TLS where the options say so, whoever the certificate is for, by either kind of socket."""
    cert, key = certificate(tmp_path, "elsewhere.example")
    tls = {"tls_cert": cert, "tls_key": key}
    path = tmp_path / "socket"
    secret, plain = daemon(**tls, unix_socket=path), daemon()

    def ask(**options):
        return harness.run("health", *harness.flags(options))

    harness.wait_for(lambda: ask(port=secret.port, **tls).returncode == 0)
    r = ask(port=secret.port, unix_socket=path, **tls)
    assert r.returncode == 0 and not r.stderr
    harness.wait_for(lambda: ask(port=plain.port).returncode == 0)
    for port, options in ((plain.port, tls), (secret.port, {})):  # each speaks to the other kind
        r = ask(port=port, **options)
        assert r.returncode == 1 and f"port {port}: " in r.stderr
