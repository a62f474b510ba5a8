"""Certificates and keys for a federation of this machine, made on the spot.

In earnest a certificate comes from whoever issues those of your institution, and every
site makes its own key and hands the public half alone to whoever runs the server.
"""

import datetime
import ipaddress
import itertools
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
OPENSSH = serialization.Encoding.OpenSSH


def write_secret(path, content):
    path.touch(mode=0o600)
    path.write_bytes(content)


def make_authority(folder, name="authority"):
    """Write the certificate of an authority; return what signs by it."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        begun(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA384())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(PEM))
    return key, certificate


def make_server(folder, authority, address="127.0.0.1"):
    """Write a server's certificate, for one address, and its key."""
    signs, issuer = authority
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    names = [x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
    certificate = (
        begun(subject, issuer.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]),
            critical=False,
        )
        .add_extension(identifier, critical=False)
        .sign(signs, hashes.SHA384())
    )
    (folder / "server.pem").write_bytes(certificate.public_bytes(PEM))
    write_secret(folder / "server.key", private_bytes(key, "TraditionalOpenSSL"))


def begun(subject, issuer, key):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=30))
    )


def key_usage(*, signs):
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def private_bytes(key, form):
    encoding = serialization.Encoding.PEM
    private = getattr(serialization.PrivateFormat, form)
    return key.private_bytes(encoding, private, serialization.NoEncryption())


def make_node_key(folder, name):
    """Write a node's key, and the public half that the server's side registers."""
    key = ec.generate_private_key(ec.SECP384R1())
    write_secret(folder / f"{name}.key", private_bytes(key, "OpenSSH"))
    public = key.public_key().public_bytes(OPENSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public)


def make_pair_keys(names):
    """Return, for each of some sites, the keys that it shares with each other one.

    In earnest two sites agree on theirs by ways of their own: the server has none.
    """
    keys = {name: {} for name in names}
    for one, other in itertools.combinations(names, 2):
        keys[one][other] = keys[other][one] = secrets.token_hex(32)
    return keys
