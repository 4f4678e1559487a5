"""What runs a manager: settings, the process of broker and host, the drive of the hosts, and the doctor."""
