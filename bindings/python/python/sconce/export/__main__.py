"""``python -m sconce.export``"""

import sys

from ._command import main

sys.exit(main())
