// Package network moves requests and answers between sockets and handlers.
//
// It owns listeners, connections and their limits, the framing of the Kafka protocol (a four-byte size, a header, a
// body) and the order of answers. It knows APIs only by their keys, and nothing about topics or file formats.
//
//	reader: frame -> header -> Dispatcher.Route -> Dispatcher.Handle -> Answer
//	        an Answer that is ready, with nothing before it under way, is written by the reader;
//	        one that must wait goes to the writer if its API may overlap, otherwise the reader waits
//	writer: takes waiting Answers strictly in the order of their requests
//
// The reader handles all frames that one read(2) returns, and sends their answers in one write(2). Those of one API that
// come one after the other may be handled together (Route.Together). An idle connection
// holds no buffer: one is taken when bytes arrive. The writer goroutine starts with the first Answer that waits while
// later requests are handled.
//
// If a listener has TLS, the reader performs the handshake first, and then both sides go through transport instead of
// directly to the socket. File ranges cannot be sent by sendfile(2) then.
//
// The bytes of a request belong to the connection's buffer: they are valid until Handle returns.
package network
