package tools

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const commonErrors = "org.apache.kafka.common.errors."

// irregular are the exceptions whose names differ from the code of their error.
var irregular = map[string]string{
	"UNKNOWN_SERVER_ERROR":                  "UnknownServerException",
	"CORRUPT_MESSAGE":                       "CorruptRecordException",
	"INVALID_FETCH_SIZE":                    "InvalidFetchSizeException",
	"NOT_LEADER_FOR_PARTITION":              "NotLeaderOrFollowerException",
	"NOT_LEADER_OR_FOLLOWER":                "NotLeaderOrFollowerException",
	"REQUEST_TIMED_OUT":                     "TimeoutException",
	"MESSAGE_TOO_LARGE":                     "RecordTooLargeException",
	"NETWORK_EXCEPTION":                     "NetworkException",
	"INVALID_TOPIC_EXCEPTION":               "InvalidTopicException",
	"RECORD_LIST_TOO_LARGE":                 "RecordBatchTooLargeException",
	"ILLEGAL_GENERATION":                    "IllegalGenerationException",
	"TOPIC_ALREADY_EXISTS":                  "TopicExistsException",
	"INVALID_CONFIG":                        "InvalidConfigurationException",
	"INVALID_PARTITIONS":                    "InvalidPartitionsException",
	"KAFKA_STORAGE_ERROR":                   "KafkaStorageException",
	"DELEGATION_TOKEN_AUTH_DISABLED":        "DelegationTokenDisabledException",
	"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED":  "UnsupportedByAuthenticationException",
	"NON_EMPTY_GROUP":                       "GroupNotEmptyException",
	"NOT_ENOUGH_REPLICAS_AFTER_APPEND":      "NotEnoughReplicasAfterAppendException",
	"COORDINATOR_LOAD_IN_PROGRESS":          "CoordinatorLoadInProgressException",
	"INVALID_REPLICA_ASSIGNMENT":            "InvalidReplicaAssignmentException",
	"UNSUPPORTED_COMPRESSION_TYPE":          "UnsupportedCompressionTypeException",
	"SASL_AUTHENTICATION_FAILED":            "SaslAuthenticationException",
	"TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "TransactionalIdAuthorizationException",
	"TOPIC_AUTHORIZATION_FAILED":            "TopicAuthorizationException",
	"GROUP_AUTHORIZATION_FAILED":            "GroupAuthorizationException",
	"CLUSTER_AUTHORIZATION_FAILED":          "ClusterAuthorizationException",
	"DELEGATION_TOKEN_AUTHORIZATION_FAILED": "DelegationTokenAuthorizationException",
	"INVALID_UPDATE_VERSION":                "InvalidUpdateVersionException",
	"FEATURE_UPDATE_FAILED":                 "FeatureUpdateFailedException",
}

// exceptionName returns the name of a protocol error in Java clients, which scripts look for in the output of tools.
func exceptionName(e *kerr.Error) string {
	if name, ok := irregular[e.Message]; ok {
		return commonErrors + name
	}
	var b strings.Builder
	b.WriteString(commonErrors)
	for word := range strings.SplitSeq(e.Message, "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	b.WriteString("Exception")
	return b.String()
}

// brokerError is an error in a broker's response, with its message if there is one.
type brokerError struct {
	code *kerr.Error
	text string
}

func (e *brokerError) Error() string { return e.text }
func (e *brokerError) Unwrap() error { return e.code }

// answered returns the error for a code in a response, nil for none.
func answered(code int16, text *string) error {
	err := kerr.TypedErrorForCode(code)
	if err == nil {
		return nil
	}
	e := &brokerError{code: err, text: err.Description}
	if text != nil && *text != "" {
		e.text = *text
	}
	return e
}

// describe formats an error in one line, with the name used by Apache Kafka's tools if it is a protocol error.
func describe(err error) string {
	text := strings.ReplaceAll(message(err), "\n", " ")
	var code *kerr.Error
	switch {
	case errors.As(err, &code):
		return exceptionName(code) + ": " + text
	case errors.Is(err, context.DeadlineExceeded):
		return commonErrors + "TimeoutException: " + text
	}
	return text
}

// closedAtOnce explains what the library can only guess: brokers also close the connection on requests that they do not
// support.
const closedAtOnce = "the broker closed the connection at once: it doesn't serve the request, or one side wants TLS or SASL and the other doesn't"

// message returns an error's text without its name.
func message(err error) string {
	full := err.Error()
	var code *kerr.Error
	var closed *kgo.ErrFirstReadEOF
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && len(shards.Errs) > 0 { // the library counts them and names the first
		full = strings.ReplaceAll(full, shards.Error(), shards.Errs[0].Err.Error())
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out waiting for the brokers: " + full
	case errors.Is(err, context.Canceled): // by a signal
		return strings.ReplaceAll(full, context.Canceled.Error(), "interrupted")
	case errors.As(err, &code):
		text := strings.ReplaceAll(full, code.Error(), code.Description)
		if strings.HasPrefix(text, code.Description+": ") { // the library prefixes the broker's text with it, or appends it
			text = strings.TrimSuffix(text, ": "+code.Description)
		}
		return strings.ReplaceAll(text, ".: ", ": ")
	case errors.As(err, &closed):
		return strings.ReplaceAll(full, closed.Error(), closedAtOnce)
	}
	return full
}
