// Package oauth is what the mechanism OAUTHBEARER knows of signed tokens (KIP-768): the keys that an identity provider signs
// with, the checks of a token that a client shows, and how a program gets a token for itself.
package oauth
