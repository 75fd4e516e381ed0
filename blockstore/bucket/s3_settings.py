"""Whether obstore understands all that the environment says about S3, or only boto3 does.

Rules:
- Keys in the environment and no configuration file: obstore reads them as boto3 does, and boto3 is
  not imported.
- A configuration file, or no keys: boto3 finds the profile and the credentials, and obstore uses
  them. A profile that says more than region and credentials (an endpoint, how buckets are
  addressed) is left to boto3, and so is one without credentials: its messages name the remedy.
- How the store is to encrypt objects is said by ``AWS_SERVER_SIDE_ENCRYPTION`` and
  ``AWS_SSE_KMS_KEY_ID``, which obstore reads; boto3 is given them with each object.
- Names and settings that obstore does not know are left to boto3: access points, directory buckets,
  a certificate bundle, FIPS and dual-stack endpoints, partitions other than the public one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from blockstore.errors import Invalid

_ONLY_BOTO3 = (
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
_OTHER_PARTITIONS = ("cn-", "us-iso", "eu-iso", "eusc-")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")
_UNDERSTOOD = {
    "region",
    "output",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "credential_process",
    "credential_source",
    "duration_seconds",
    "external_id",
    "mfa_serial",
    "role_arn",
    "role_session_name",
    "source_profile",
    "sso_account_id",
    "sso_region",
    "sso_registration_scopes",
    "sso_role_name",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
}
"""What a profile may say: region, form of output, and how boto3 finds the credentials."""


def needs_boto3(name: str) -> bool:
    """Return whether only boto3 can reach the bucket ``name`` in this environment."""
    environment = os.environ
    if ":" in name or name.endswith("--x-s3"):
        return True
    if any(environment.get(variable) for variable in _ONLY_BOTO3):
        return True
    endpoint = next(filter(None, map(environment.get, _ENDPOINTS)), "")
    encrypted = not endpoint.lower().startswith("http://")
    if environment.get("AWS_CA_BUNDLE") and encrypted:
        return True  # obstore would trust the system's certificates too
    if not endpoint and s3_region().startswith(_OTHER_PARTITIONS):
        return True
    if has_keys(environment) and not _has_config_file(environment):
        return False
    return not _is_plain_profile(has_endpoint=bool(endpoint))


def has_keys(environment: Mapping[str, str]) -> bool:
    """Return whether the environment has an access key, which comes before every profile."""
    return bool(environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"))


def encryption() -> dict[str, str]:
    """Return what a request for a new object says of its encryption. Raises Invalid for what the
    environment cannot mean."""
    algorithm = os.environ.get("AWS_SERVER_SIDE_ENCRYPTION", "")
    key = os.environ.get("AWS_SSE_KMS_KEY_ID", "")
    if algorithm not in ("", *_ALGORITHMS):
        raise Invalid(
            f"AWS_SERVER_SIDE_ENCRYPTION is {algorithm!r}, expected one of "
            f"{', '.join(_ALGORITHMS)}; keys that are sent with each request are not supported"
        )
    if key and algorithm in ("", "AES256"):
        raise Invalid("AWS_SSE_KMS_KEY_ID needs AWS_SERVER_SIDE_ENCRYPTION=aws:kms")
    said = {"ServerSideEncryption": algorithm, "SSEKMSKeyId": key}
    return {name: value for name, value in said.items() if value}


def s3_region() -> str:
    """Return the region that the environment names, or S3's first one."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _has_config_file(environment: Mapping[str, str]) -> bool:
    return os.path.exists(os.path.expanduser(environment.get("AWS_CONFIG_FILE", "~/.aws/config")))


def _is_plain_profile(*, has_endpoint: bool) -> bool:
    """Whether boto3 finds credentials, and the profile says nothing that obstore cannot follow."""
    from boto3.session import Session
    from botocore.exceptions import BotoCoreError

    try:
        session = Session()
        profile = session._session.get_scoped_config()
        credentials = session.get_credentials()
    except BotoCoreError:
        return False  # the same error is raised, and classified, by the first request
    region = str(profile.get("region", ""))
    partition = not has_endpoint and region.startswith(_OTHER_PARTITIONS)
    return credentials is not None and not partition and set(profile) <= _UNDERSTOOD
