"""Run a script with noise whose keys follow from its name: no chance makes it fail.

python .ci/run_keyed.py SCRIPT
"""

import random
import runpy
import secrets
import sys

script = sys.argv[1]
keys = random.Random(script)
secrets.randbits, secrets.token_bytes = keys.getrandbits, keys.randbytes
sys.path[0], sys.argv[:] = ".", [script]
runpy.run_path(script, run_name="__main__")
