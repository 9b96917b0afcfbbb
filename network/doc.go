// Package network moves requests and answers between sockets and handlers.
//
// It owns listeners, connections and their limits, the framing of the Kafka protocol
// (a four byte size, a header, a body) and the order of answers; it knows no API beyond
// its key, and no topic or file format.
//
//	reader: frame -> header -> Dispatcher.Route -> Dispatcher.Handle -> Answer
//	        an Answer that is ready, with nothing before it under way, is written by the reader;
//	        one that must wait goes to the writer, if its API may overlap, else the reader waits
//	writer: takes waiting Answers strictly in the order of their requests
//
// The reader takes as many frames as one read(2) brings and sends their answers in one
// write(2). An idle connection holds no buffer: it is taken when bytes arrive. The second
// goroutine of a connection starts with the first Answer that waits beside later requests.
//
// A listener may have TLS: the reader makes the handshake first, and then both sides go through transport instead of
// straight to the socket, where ranges of files cannot be sent by sendfile(2).
//
// Bytes of a request belong to the connection's buffer: they are valid until Handle returns.
package network
