"""The node's half of the app: what every SuperNode runs, anew for each message.

It has no rows and no ledger. It hands what comes to the site that the node's own
configuration names, and the site's answer back; so it imports nothing else.
"""

from skdpspectral.federation.flower import client_app

client = client_app()
