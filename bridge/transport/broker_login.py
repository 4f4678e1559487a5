"""The login at a broker: credentials, the client id, and why a broker cannot be reached or refuses a client."""

import hmac
import ssl

import paho.mqtt.client as paho

from bridge.transport.address import Address

_OTHER_NAME = {62, 64}
"""OpenSSL's codes for a certificate of another host, and of another address."""
_UNKNOWN_USER = {"Not authorized", "Bad user name or password"}


def secret_client_id(client_id: str, address: Address) -> str:
    """A client id that only those who know the password can compute.

    A broker disconnects a client when another one connects with the same id, even one of another user.
    """
    if not address.password:
        return client_id
    return f"{client_id}-{hmac.digest(address.password.encode(), client_id.encode(), 'sha256').hex()[:16]}"


def set_credentials(client: paho.Client, address: Address) -> None:
    """Give a client the user, the password and the TLS settings of an address."""
    client.username_pw_set(address.user, address.password)
    if address.tls:
        client.tls_set()


def why_unreachable(address: Address, error: OSError) -> str:
    """The reason why no connection to a broker comes about, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = (
            "connect by a name that is in it"
            if error.verify_code in _OTHER_NAME
            else "have the system trust its authority, or name the authority's file in SSL_CERT_FILE"
        )
        reason = error.verify_message.rstrip(".")
        return f"the certificate of the broker at {address} is not trusted: {reason}; {remedy}"
    if address.tls and isinstance(error, ssl.SSLError | ConnectionResetError):
        return f"no TLS with the broker at {address}: {error}; see whether this is its port for TLS"
    return f"no broker answers at {address}: {error}"


def is_unknown_user(reason: object) -> bool:
    """True if a broker refused a client because of its user or password."""
    return str(reason) in _UNKNOWN_USER


def why_refused(reason: object) -> str:
    """The reason why a broker refused a client, and what to do."""
    return f"{reason}; check the user and the password" if is_unknown_user(reason) else str(reason)
