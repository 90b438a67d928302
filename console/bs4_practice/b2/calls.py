"""The calls with a JSON body: accounts, upload URLs, large files, listings, deletions. Each answers
one request from the Shelf.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable
from typing import Any

from bs4_practice.b2.request import Request
from bs4_practice.b2.shelf import Refusal, Version

#: As the real one asks for it; a part below this is refused unless it is the last.
MINIMUM_PART = 5_000_000


def authorize_account(request: Request) -> None:
    """Answer with a new token for the key in the Authorization header, and with what the key may
    do. A key consists of an id and a secret. Raises Refusal if the id is unknown or the secret is
    wrong.
    """
    b2 = request.b2
    request.discard()
    try:
        given = base64.b64decode(
            (request.headers.get("Authorization") or "").removeprefix("Basic ")
        ).decode()
    except (binascii.Error, UnicodeDecodeError):
        given = ""
    key_id, _, secret = given.partition(":")
    key = b2.shelf.keys.get(key_id)
    if key is None or not secrets.compare_digest(key.secret, secret):
        raise Refusal(401, "unauthorized", "")
    token = secrets.token_hex(16)
    b2.tokens[token] = key
    allowed: dict[str, Any] = {
        "capabilities": list(key.capabilities),
        "namePrefix": key.prefix or None,
        "buckets": None,
    }
    if key.bucket:
        allowed["buckets"] = [
            {"id": i, "name": n} for i, n in b2.shelf.buckets.items() if n == key.bucket
        ]
    storage = {
        "absoluteMinimumPartSize": MINIMUM_PART,
        "apiUrl": b2.url,
        "downloadUrl": b2.url,
        "infoType": "storageApi",
        "recommendedPartSize": b2.part_size,
        "s3ApiUrl": b2.url,
        "allowed": allowed,
    }
    request.json(
        {
            "accountId": "account",
            "applicationKeyExpirationTimestamp": None,
            "authorizationToken": token,
            "apiInfo": {"storageApi": storage},
        }
    )


def list_buckets(request: Request) -> None:
    """Answer with all buckets, or, if the request gives the name of a bucket, with that bucket
    only. The list is empty if no bucket has that name. Raises Refusal if the key may not list
    buckets.
    """
    asked = request.asked()
    names = [
        name
        for name in request.b2.shelf.buckets.values()
        if asked.get("bucketName") in (None, name)
    ]
    request.json({"buckets": [_bucket(request.bucket_id(name), name) for name in names]})


def get_upload_url(request: Request) -> None:
    """Answer with a URL and a token for uploads of whole files into a bucket. Raises Refusal if the
    bucket does not exist or the key may not write into it.
    """
    asked = request.asked()
    _upload_url(request, "bucketId", request.known_bucket(asked), "b2_upload_file")


def get_upload_part_url(request: Request) -> None:
    """Answer with a URL and a token for uploads of parts of an unfinished large file. Raises
    Refusal if there is no such file or the key may not write files.
    """
    asked = request.asked()
    _upload_url(
        request, "fileId", request.b2.shelf.get(asked["fileId"], "start").id, "b2_upload_part"
    )


def _upload_url(request: Request, what: str, target: str, call: str) -> None:
    token = secrets.token_hex(16)
    request.b2.uploads[token] = target, request.key()
    request.json(
        {
            what: target,
            "authorizationToken": token,
            "uploadUrl": f"{request.b2.url}/{call}/{target}",
        }
    )


def start_large_file(request: Request) -> None:
    """Begin a large file, whose parts are uploaded later, and answer with its description. Raises
    Refusal if the key may not write into the bucket or may not use the file's name.
    """
    asked, shelf = request.asked(), request.b2.shelf
    bucket = request.known_bucket(asked)
    request.may_name(asked["fileName"])
    made = Version(
        shelf.number(),
        bucket,
        asked["fileName"],
        "start",
        shelf.now_ms(),
        content_type(asked.get("contentType")),
    )
    made.info = dict(asked.get("fileInfo") or {})
    request.done(shelf.put(made).as_dict())


def finish_large_file(request: Request) -> None:
    """Carry out a client's call b2_finish_large_file: make a file of the parts in which it was
    uploaded, and answer with its description. Raises Refusal if no such upload is under way, if a
    part is missing, or if the SHA-1 of a part is not the one that the request gives.
    """
    asked, shelf = request.asked(), request.b2.shelf
    request.done(
        shelf.finish(shelf.get(asked["fileId"], "start"), asked["partSha1Array"]).as_dict()
    )


def cancel_large_file(request: Request) -> None:
    """Carry out a client's call b2_cancel_large_file, as the practice store does: throw away the
    upload of a large file, which is sent in parts, before its last part, with the parts that have
    arrived. Raises Refusal if the upload that the request names is not under way.
    """
    asked, shelf = request.asked(), request.b2.shelf
    found = shelf.get(asked["fileId"], "start")
    shelf.remove(found)
    request.done(
        {
            "accountId": "account",
            "bucketId": found.bucket,
            "fileId": found.id,
            "fileName": found.name,
        }
    )


def list_parts(request: Request) -> None:
    """Answer with the parts of an unfinished large file that have arrived, by part number. An
    answer has at most as many parts as the request asks for (100 if it does not say), and the
    number of the part with which the next answer is to begin. Raises Refusal if there is no such
    file.
    """
    asked = request.asked()
    found = request.b2.shelf.get(asked["fileId"], "start")
    most, first = asked.get("maxPartCount") or 100, asked.get("startPartNumber") or 1
    numbers = [number for number in sorted(found.parts) if number >= first]
    rows = [
        {
            "fileId": found.id,
            "partNumber": number,
            "contentLength": found.parts[number][1],
            "contentSha1": found.parts[number][2],
            "uploadTimestamp": 0,
        }
        for number in numbers[:most]
    ]
    request.json({"parts": rows, "nextPartNumber": numbers[most] if len(numbers) > most else None})


def list_unfinished_large_files(request: Request) -> None:
    """Answer with the unfinished large files of a bucket. An answer has at most as many files as
    the request asks for (100 if it does not say), and the id of the file with which the next answer
    is to begin. Raises Refusal if the key may not list the bucket.
    """
    asked = request.asked()
    versions = request.b2.shelf.versions(request.known_bucket(asked), asked.get("namePrefix") or "")
    found = sorted((one for one in versions if one.action == "start"), key=lambda one: one.id)
    found = [one for one in found if one.id >= (asked.get("startFileId") or "")]
    most = asked.get("maxFileCount") or 100
    request.json(
        {
            "files": [one.as_dict() for one in found[:most]],
            "nextFileId": found[most].id if len(found) > most else None,
        }
    )


def list_file_names(request: Request) -> None:
    """Answer with the newest version of each file of a bucket that is not hidden, sorted by name.
    An answer has at most as many files as the request asks for (100 if it does not say), and the
    name with which the next answer is to begin. Raises Refusal if the key may not list the names
    that begin with the request's prefix.
    """
    asked = request.asked()
    bucket, prefix = request.known_bucket(asked), asked.get("prefix") or ""
    request.may_name(prefix)
    found = [
        one
        for one in request.b2.shelf.newest(bucket, prefix)
        if one.name >= (asked.get("startFileName") or "")
    ]
    most = asked.get("maxFileCount") or 100
    following = found[most].name if len(found) > most else None
    request.json({"files": [one.as_dict() for one in found[:most]], "nextFileName": following})


def list_file_versions(request: Request) -> None:
    """Answer with all versions of the files of a bucket, sorted by name, those of one name with the
    newest first. Unfinished versions and those that hide a name are among them. An answer has at
    most as many versions as the request asks for (100 if it does not say), and the name and id with
    which the next answer is to begin. Raises Refusal if the key may not list the names that begin
    with the request's prefix.
    """
    asked = request.asked()
    bucket, prefix = request.known_bucket(asked), asked.get("prefix") or ""
    request.may_name(prefix)
    found = [
        one
        for one in request.b2.shelf.versions(bucket, prefix)
        if one.name >= (asked.get("startFileName") or "")
    ]
    if asked.get("startFileId"):
        ids = [one.id for one in found]
        found = found[ids.index(asked["startFileId"]) :] if asked["startFileId"] in ids else found
    most = asked.get("maxFileCount") or 100
    after = found[most] if len(found) > most else None
    request.json(
        {
            "files": [one.as_dict() for one in found[:most]],
            "nextFileName": after.name if after else None,
            "nextFileId": after.id if after else None,
        }
    )


def get_file_info(request: Request) -> None:
    """Answer with the description of the file version whose id the request gives. Raises Refusal if
    no version has this id or the key may not read files.
    """
    asked = request.asked()
    request.json(request.b2.shelf.get(asked["fileId"]).as_dict())


def hide_file(request: Request) -> None:
    """Hide the name of a file from the listing of names, by adding a version that says so, and
    answer with that version. Earlier versions of the file stay. Raises Refusal if the key may not
    write into the bucket.
    """
    asked, shelf = request.asked(), request.b2.shelf
    made = Version(
        shelf.number(), request.known_bucket(asked), asked["fileName"], "hide", shelf.now_ms()
    )
    request.json(shelf.put(made).as_dict())


def delete_file_version(request: Request) -> None:
    """Delete the file version whose id the request gives, with its bytes. Raises Refusal if no
    version has this id, or if the key may not delete files or not use the file's name.
    """
    asked, shelf = request.asked(), request.b2.shelf
    try:
        found = shelf.get(asked["fileId"])
    except Refusal:
        raise Refusal(400, "file_not_present", asked["fileId"]) from None
    request.may_name(found.name)
    shelf.remove(found)
    request.done({"fileId": found.id, "fileName": found.name})


def content_type(given: str | None) -> str:
    """Return `given`, the content type that a client names. Returns "application/octet-stream" if
    it is None or "b2/x-auto", with which a client leaves the choice to the store.
    """
    return "application/octet-stream" if given in (None, "b2/x-auto") else given


def _bucket(key: str, name: str) -> dict[str, Any]:
    return {
        "accountId": "account",
        "bucketId": key,
        "bucketName": name,
        "bucketType": "allPrivate",
        "bucketInfo": {},
        "corsRules": [],
        "lifecycleRules": [],
        "options": [],
        "revision": 1,
        "defaultServerSideEncryption": {
            "isClientAuthorizedToRead": True,
            "value": {"algorithm": None, "mode": None},
        },
        "fileLockConfiguration": {
            "isClientAuthorizedToRead": True,
            "value": {
                "defaultRetention": {"mode": None, "period": None},
                "isFileLockEnabled": False,
            },
        },
        "replicationConfiguration": {"isClientAuthorizedToRead": True, "value": None},
    }


CALLS: dict[str, Callable[[Request], None]] = {
    f"b2_{call.__name__}": call
    for call in (
        authorize_account,
        list_buckets,
        get_upload_url,
        get_upload_part_url,
        start_large_file,
        finish_large_file,
        cancel_large_file,
        list_parts,
        list_unfinished_large_files,
        list_file_names,
        list_file_versions,
        get_file_info,
        hide_file,
        delete_file_version,
    )
}
