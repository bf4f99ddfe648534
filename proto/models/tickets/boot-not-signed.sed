# The audience is any relay: after a restart, or at another relay, a used ticket works again.
s/role_harness, boot, CONCAT/role_harness, any_relay, CONCAT/
