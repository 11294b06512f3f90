"""The WebRTC client of the Go2, package files as they are, imported so that it needs no sound library.

Its audio module imports `sounddevice` and never uses it; without PortAudio that raises OSError. Everything that
rhino takes from the package passes here.
"""

import sys
import types

try:
    import sounddevice  # noqa: F401
except (ImportError, OSError):
    sys.modules["sounddevice"] = types.ModuleType("sounddevice")

from unitree_webrtc_connect.encryption import (
    aes_decrypt,
    aes_encrypt,
    generate_aes_key,
    rsa_encrypt,
    rsa_load_public_key,
)
from unitree_webrtc_connect.unitree_auth import decrypt_con_notify_data
from unitree_webrtc_connect.webrtc_audio import WebRTCAudioChannel
from unitree_webrtc_connect.webrtc_datachannel import WebRTCDataChannel
from unitree_webrtc_connect.webrtc_driver import (
    UnitreeWebRTCConnection,
    WebRTCConnectionMethod,
)
from unitree_webrtc_connect.webrtc_video import WebRTCVideoChannel

__all__ = [
    "UnitreeWebRTCConnection",
    "WebRTCAudioChannel",
    "WebRTCConnectionMethod",
    "WebRTCDataChannel",
    "WebRTCVideoChannel",
    "aes_decrypt",
    "aes_encrypt",
    "decrypt_con_notify_data",
    "generate_aes_key",
    "rsa_encrypt",
    "rsa_load_public_key",
]
