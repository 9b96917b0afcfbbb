package oauth

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"time"
)

// Unsecured makes tokens without a signature of claims, each valid for some time from when it is made. They are for
// development: whoever makes one is who it says.
func Unsecured(claims map[string]any, lifetime time.Duration) func() (string, error) {
	return func() (string, error) {
		now, timed := time.Now(), make(map[string]any)
		maps.Copy(timed, claims)
		timed["iat"], timed["exp"] = float64(now.UnixMilli())/1000, float64(now.Add(lifetime).UnixMilli())/1000
		body, err := json.Marshal(timed)
		if err != nil {
			return "", err
		}
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(body) + ".", nil
	}
}
