"""`/v1/files`: what is sent comes back, to its owner alone; forms that are none are refused and leave nothing."""
import json
import os

import openai
import pytest

import harness

BOUNDARY = "xYzZY"


def form(*parts, end=True, boundary=BOUNDARY):
    """A multipart body of (head lines, content)."""
    body = b"".join(b"--" + boundary.encode() + b"\r\n" + head + b"\r\n\r\n" + data + b"\r\n" for head, data in parts)
    return body + (b"--" + boundary.encode() + b"--\r\n" if end else b"")


def part(name, data, file=None):
    head = f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{file}"' if file else "")
    return head.encode(), data


PURPOSE = part("purpose", b"batch")


def send(d, body, content_type=f"multipart/form-data; boundary={BOUNDARY}", key=None):
    headers = {"Content-Type": content_type, **({"Authorization": f"Bearer {key}"} if key else {})}
    return d.request("POST", "/v1/files", body, headers=headers)


def stored(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def files(daemon, tmp_path):
    folder = tmp_path / "batches"
    d = daemon(batch_dir=folder, max_file="2MiB", batch_quota="5MiB")
    d.folder = folder
    return d


def test_the_openai_client(files, tmp_path):
    data = os.urandom(1_500_000)  # several pieces, boundaries anywhere
    with openai.OpenAI(base_url=files.url + "/v1", api_key="x", max_retries=0) as c:
        made = c.files.create(file=("questions é.jsonl", data), purpose="batch")
        assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(data), "questions é.jsonl", "batch")
        assert made.status == "processed" and made.id.startswith("file-")
        assert c.files.content(made.id).content == data
        assert c.files.retrieve(made.id) == made
        others = [c.files.create(file=(f"{i}", b"x" * i), purpose="batch").id for i in range(1, 6)]
        assert [f.id for f in c.files.list()] == [*reversed(others), made.id]
        assert [f.id for f in c.files.list(limit=2)] == [*reversed(others), made.id], "page by page"
        assert [f.id for f in c.files.list(limit=2, order="asc")] == [made.id, *others]
        assert not list(c.files.list(purpose="batch_output")) and len(list(c.files.list(purpose="batch"))) == 6
        assert c.files.delete(made.id).deleted
        for ask in (c.files.retrieve, c.files.content, c.files.delete):
            with pytest.raises(openai.NotFoundError):
                ask(made.id)
    assert len(stored(files.folder)) == 10
    assert all(b"ping" not in files.get(f"/v1/files/{i}/content").body for i in others)


def test_a_restart_keeps_them(daemon, tmp_path):
    folder = tmp_path / "batches"
    d = daemon(batch_dir=folder)
    kept = send(d, form(PURPOSE, part("file", b"kept", "a"))).json()
    with d.socket() as s:  # killed in the middle of an upload
        body = form(PURPOSE, part("file", b"x" * 900_000, "a"))
        s.sendall(f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:600_000])
        harness.wait_for(lambda: len(stored(folder)) == 3)
        d.kill()
    d = daemon(batch_dir=folder)
    assert [f["id"] for f in d.get("/v1/files").json()["data"]] == [kept["id"]] and len(stored(folder)) == 2
    assert d.get(f"/v1/files/{kept['id']}/content").body == b"kept"


def test_other_keys_see_nothing(daemon, tmp_path):
    d = daemon(batch_dir=tmp_path / "batches", api_key="a,b")
    mine = send(d, form(PURPOSE, part("file", b"{}", "a")), key="a").json()["id"]
    for key, status in (("b", 404), ("a", 200)):
        h = {"Authorization": f"Bearer {key}"}
        assert len(d.get("/v1/files", headers=h).json()["data"]) == (status == 200)
        for method, path in (("GET", mine), ("GET", mine + "/content"), ("DELETE", mine)):
            assert d.request(method, f"/v1/files/{path}", headers=h).status == status
    assert send(d, form(PURPOSE, part("file", b"{}", "a"))).status == 401


@pytest.mark.parametrize("name", ["x", "file-", "file-" + "0" * 23, "file-" + "0" * 24, "file-" + "0" * 25, "file-%2e%2e%2f" + "0" * 15,
                                  "../../../etc/passwd", "file-" + "A" * 24, "file-" + "0" * 24 + "/other"])
def test_no_such_name(files, name):
    assert files.get(f"/v1/files/{name}").status == 404 and files.request("DELETE", f"/v1/files/{name}").status == 404
    assert files.get(f"/v1/files/{name}/content").status == 404


FILE = part("file", b"x", "a")


@pytest.mark.parametrize("body, why", [
    (form(PURPOSE), "file: missing"), (form(FILE), "purpose: only batch"), (form(part("purpose", b"vision"), FILE), "purpose"),
    (form(PURPOSE, FILE, FILE), "one at a time"), (form(PURPOSE, FILE, end=False), "ends before"),
    (form(PURPOSE, FILE)[:-5], "ends before"), (form(PURPOSE, FILE) + b"more", "behind the last"), (b"", "ends before"),
    (b"\r\n" + form(PURPOSE, FILE), "begin with the boundary"), (form(PURPOSE, FILE).replace(b"\r\n", b"\n"), "goes on where"),
    (form((b"X-Y: 1", b"batch"), FILE), "no name"), (form((b"Content-Disposition: form-data", b"x")), "one name"),
    (form((b'Content-Disposition: form-data; name="purpose', b"x")), "one name"), (form((b"nothing", b"x")), "no colon"),
    (form((b'Content-Disposition: form-data; name="a\0b"', b"x")), "control character"),
    (form((b'Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: base64', b"x")), "encoded"),
    (form((b'X: "' + b"y" * 20_000 + b'"', b"x")), "head of a part is too long"), (form(*[part("other", b"")] * 17), "too many parts"),
    (form(part("purpose", b"batch" * 20), FILE), "purpose: only batch"), (form(part("purpose", b"batch\0"), FILE), "purpose"),
    (form(PURPOSE, part("file", b"x" * 2_200_000, "a")), "max_file"), (form(PURPOSE, part("file", b"x" * 9_000_000, "a")), "max_file"),
])
def test_bad_forms_leave_nothing(files, body, why):
    r = send(files, body)
    assert r.status == (413 if len(body) > 2_500_000 else 400) and why in r.error["message"], r.text
    harness.wait_for(lambda: stored(files.folder) == [])
    assert send(files, form(PURPOSE, FILE)).status == 200


@pytest.mark.parametrize("content_type, why", [
    ("application/json", "send Content-Type: multipart/form-data"), ("multipart/form-data", "no boundary"),
    ("multipart/form-data; boundary=", "the boundary is none"), ("multipart/form-data; boundary=" + "x" * 71, "the boundary is none"),
    ('multipart/form-data; boundary="a', "no boundary"), ("multipart/form-data; boundary=a<b", "the boundary is none"),
])
def test_no_boundary(files, content_type, why):
    r = send(files, form(PURPOSE, FILE), content_type)
    assert r.status == 400 and why in r.error["message"]


def test_content_that_looks_like_a_boundary(files):
    data = b"\r\n--xYzZ\r\n--xYz\r\n\r\n--\r--xYzZY\r\n-" + b"\r\n--xYzZ" * 60_000
    made = send(files, form(PURPOSE, part("file", data, 'a\\"b')), f'multipart/form-data; x=y; boundary="{BOUNDARY}"').json()
    assert made["bytes"] == len(data) and made["filename"] == 'a"b'
    assert files.get(f"/v1/files/{made['id']}/content").body == data


def test_room_ends_and_comes_back(files):
    body = form(PURPOSE, part("file", b"x" * 2_000_000, "a"))
    ids = [send(files, body).json()["id"] for _ in range(2)]
    r = send(files, body)
    assert r.status == 507 and r.error["code"] == "insufficient_storage" and "batch_quota" in r.error["message"]
    assert files.request("DELETE", f"/v1/files/{ids[0]}").status == 200
    assert send(files, body).status == 200
    assert len(stored(files.folder)) == 4


def test_who_goes_away_leaves_nothing(files):
    body = form(PURPOSE, part("file", b"x" * 1_500_000, "a"))
    for sent in (400_000, 1_200_000):
        with files.socket() as s:
            s.sendall(f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:sent])
            harness.wait_for(lambda: stored(files.folder))
        harness.wait_for(lambda: stored(files.folder) == [])
    with files.socket() as s:  # and a reader of what is there
        made = send(files, body).json()
        s.sendall(f"GET /v1/files/{made['id']}/content HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        s.recv(10)
    assert files.alive()


def test_chunked(files):
    body = form(PURPOSE, part("file", b"y" * 700_000, "a"))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[i:i + 5000] for i in range(0, len(body), 5000)))
    answer = files.raw(f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
                       "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode() + chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and json.loads(answer.split(b"\r\n\r\n")[1])["bytes"] == 700_000


def test_off(demo):
    for r in (demo.get("/v1/files"), demo.get("/v1/files/file-" + "0" * 24), send(demo, form(PURPOSE, FILE)),
              send(demo, form(PURPOSE, part("file", b"x" * 1_000_000)))):
        assert r.status == 404 and "batch_dir" in r.error["message"]


def test_a_folder_that_is_none(tmp_path):
    (tmp_path / "file").write_text("x")
    r = harness.run("serve", "--port", "0", "--batch-dir", tmp_path / "file")
    assert r.returncode != 0 and "batch_dir" in r.stderr
