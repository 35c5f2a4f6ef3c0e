"""host-device: an interface of the host moves into the pod, and comes back as it was."""

from plugins.attach.sequence import interface_plugin
from plugins.host_device.config import HostDeviceConfig
from plugins.host_device.driver import HostDeviceDriver

__all__ = ["PLUGIN"]

PLUGIN = interface_plugin("host-device", HostDeviceConfig, HostDeviceDriver)
