// Package status shows a person how a broker and its cluster are: one page of HTML, and the picture that it asks for every
// few seconds as JSON. Nothing can be changed through it.
//
//	broker: Reading of its parts ─> Board: rates, histories, the worst first, bounded ─> /status.json ─> page
//
// A Board reads in an interval, so that the page has the last minutes from its first moment on, and once more for who
// asks when the last reading is not quite new. How many people watch makes no difference. Names come from clients and may
// hold anything: they are JSON strings here, and text nodes in the page, which runs only the script that it was built with.
//
// The package knows nothing of the broker's parts, and they nothing of it.
package status
