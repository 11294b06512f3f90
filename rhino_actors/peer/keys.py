"""The robot's side of the encrypted signalling: its RSA key, the notice that hands it out, the offer that comes back.

Written against the published behaviour, not with the client's functions: what both got wrong would go unnoticed.
"""

import base64
import json
import os

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

# Of data2 = 2: the same in every robot of that firmware, and in every client.
COMMON_KEY = bytes.fromhex("e85682bd16549b008e04a6682bb3ebe3")
NONCE_BYTES, TAG_BYTES = 12, 16
DIGITS = "ABCDEFGHIJ"
AES_BLOCK_BITS = 128


class RobotKeys:
    """The keys of one robot."""

    def __init__(self, data2: int, aes_key: str = "", path: str = "31415") -> None:
        """Make a key pair.

        Args:
            data2: 1 plain, 2 encrypted with the common key, 3 with this robot's own.
            aes_key: that own key, 32 hexadecimal digits.
            path: five digits that the second request's path ends with.
        """
        self.path = f"con_ing_{path}"
        self._data2 = data2
        self._key = COMMON_KEY if data2 == 2 else bytes.fromhex(aes_key)
        self._private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        head = os.urandom(5).hex()
        tail = "".join(f"{os.urandom(1).hex()[0]}{DIGITS[int(digit)]}" for digit in path)
        public = self._private.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        self._plain = f"{head}{base64.b64encode(public).decode()}{tail}"

    def notice(self) -> str:
        """Return the answer to con_notify."""
        data1 = self._plain
        if self._data2 in (2, 3):
            nonce = os.urandom(NONCE_BYTES)
            sealed = AESGCM(self._key).encrypt(nonce, data1.encode(), None)
            blob = sealed[:-TAG_BYTES] + nonce + sealed[-TAG_BYTES:]
            data1 = base64.b64encode(blob).decode()
        return base64.b64encode(
            json.dumps({"data1": data1, "data2": self._data2}).encode()
        ).decode()

    def open_offer(self, body: bytes) -> tuple[str, bytes]:
        """Return the client's offer and its AES key. Raises ValueError."""
        fields = json.loads(body)
        size = self._private.key_size // 8
        sealed = base64.b64decode(fields["data2"])
        blocks = [sealed[start : start + size] for start in range(0, len(sealed), size)]
        key = b"".join(self._private.decrypt(block, PKCS1v15()) for block in blocks)
        cipher = Cipher(algorithms.AES(key), modes.ECB()).decryptor()
        padded = cipher.update(base64.b64decode(fields["data1"])) + cipher.finalize()
        remover = padding.PKCS7(AES_BLOCK_BITS).unpadder()
        return (remover.update(padded) + remover.finalize()).decode(), key

    @staticmethod
    def seal_answer(answer: str, key: bytes) -> str:
        """Return an answer as the client expects it."""
        adder = padding.PKCS7(AES_BLOCK_BITS).padder()
        padded = adder.update(answer.encode()) + adder.finalize()
        cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        return base64.b64encode(cipher.update(padded) + cipher.finalize()).decode()
