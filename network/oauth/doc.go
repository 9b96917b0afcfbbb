// Package oauth handles the signed tokens of the mechanism OAUTHBEARER (KIP-768): it fetches the keys of an identity
// provider, validates the tokens that clients present, and gets tokens for a program itself.
package oauth
