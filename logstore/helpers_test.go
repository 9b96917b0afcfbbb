package logstore

import "barnabas/internal/vfs"

var vfsOS = vfs.OS{}
