// Package errcode finds the protocol's error code in a chain of errors.
package errcode

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Of returns the code of the first error in the chain that has one: NONE for nil, UNKNOWN_SERVER_ERROR if there is none.
func Of(err error) int16 {
	if err == nil {
		return 0
	}
	var coded *kerr.Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return kerr.UnknownServerError.Code
}
