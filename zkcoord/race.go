//go:build race

package zkcoord

import "time"

// watchSetupPause is how long a new session is left alone under the race detector. With each connection the library
// looks through its watches on a goroutine of its own. If one is there already, because that goroutine was held up, it
// reads without a lock the zxid that the next response writes: harmless with a new session, but reported. watchedFrom
// is about connections that continue a session.
const watchSetupPause = 20 * time.Millisecond
