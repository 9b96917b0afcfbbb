// Package status shows people the state of a broker and its cluster: an HTML page, and the snapshot that it requests as
// JSON every few seconds. It is read-only.
//
//	broker: Reading of its parts ─> Board: rates, histories, worst first, bounded ─> /status.json ─> page
//
// A Board takes readings at an interval, so that the page can show the last minutes as soon as it is opened, and on
// request if the last reading is too old. How many people watch makes no difference. Names come from clients and may
// contain anything: they are JSON strings here, and text nodes in the page, which runs only its own script.
//
// The package knows nothing about the broker's parts, nor they about it.
package status
