package api

import (
	"errors"
	"net/http"
	"strings"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// authenticate finds out who calls, by the key in Authorization or X-API-Key.
func (a *API) authenticate(r *http.Request) (identity.Principal, error) {
	return Authenticate(r, a.cfg.Keys, a.cfg.ClientIP(r), identity.ScopeInference)
}

// Authenticate returns the principal of the request's key if it has the scope. Errors are *llm.Error.
func Authenticate(r *http.Request, keys *identity.Keys, addr string, scope identity.Scope) (identity.Principal, error) {
	secret, err := keyOf(r)
	if err != nil {
		return identity.Principal{}, err
	}
	p, err := keys.Authenticate(r.Context(), secret, addr)
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return identity.Principal{}, llm.Errorf(llm.CodeUnauthenticated, "Incorrect API key provided. Keys begin with mr2_ and may expire or be revoked.")
	case err != nil && r.Context().Err() != nil:
		return identity.Principal{}, err
	case err != nil:
		return identity.Principal{}, &llm.Error{
			Code: llm.CodeUnavailable, Message: "The key cannot be checked now.", RetryAfter: retryAfterOutage, Err: err,
		}
	case !p.Has(scope):
		return identity.Principal{}, llm.Errorf(llm.CodeForbidden, "This key has not the scope %s.", scope)
	}
	return p, nil
}

// keyOf reads the key. Two different ones are refused: neither header wins.
func keyOf(r *http.Request) (string, error) {
	bearer := ""
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, rest, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", llm.Errorf(llm.CodeUnauthenticated, "The Authorization header must read: Bearer mr2_...")
		}
		bearer = strings.TrimSpace(rest)
	}
	apiKey := strings.TrimSpace(r.Header.Get("X-Api-Key"))
	switch {
	case bearer == "" && apiKey == "":
		return "", llm.Errorf(llm.CodeUnauthenticated, "You did not provide an API key. Send it as: Authorization: Bearer mr2_...")
	case bearer != "" && apiKey != "" && bearer != apiKey:
		return "", llm.Errorf(llm.CodeUnauthenticated, "Authorization and X-API-Key hold different keys.")
	case bearer != "":
		return bearer, nil
	default:
		return apiKey, nil
	}
}
