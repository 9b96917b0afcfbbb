// Package oauth handles the signed tokens of the mechanism OAUTHBEARER (KIP-768): it fetches the keys of an identity
// provider, validates the tokens that clients present, and gets tokens for a program itself.
//
// Keys, Validator and Source are safe for concurrent use. A provider is asked once on behalf of all callers that wait,
// and nobody waits for it while the keys or the token at hand may still be used. The requests belong to the life that the
// owner gives, not to the caller, who may go away earlier. The package knows no connections and no settings.
package oauth
