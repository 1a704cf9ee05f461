package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/ebb-agent/ebb/tools/peers"
)

const (
	collectorUser = "system:serviceaccount:ebb-system:ebb-controller"
	webhookPath   = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)

// refusals are a webhook's answers to the collector.
var refusals = []object{
	{"code": 403, "reason": "Forbidden", "message": "no"},
	{"code": 404, "reason": "NotFound", "message": "not found"},
	{"code": 409, "reason": "Conflict", "message": "conflict"},
	{"code": 410, "reason": "Gone", "message": "gone"},
	{"code": 429, "reason": "TooManyRequests", "message": "busy", "details": object{"retryAfterSeconds": 1}},
	{"code": 200, "status": "Success", "message": "deleted"},
}

// webhook refuses the collector's changes, or breaks, so that the API server answers 500.
type webhook struct {
	server *httptest.Server
	breaks atomic.Bool
	which  atomic.Int64
}

func newWebhook(cp *peers.ControlPlane) (*webhook, error) {
	w := &webhook{}
	var err error
	w.server, err = cp.Authority().Serve(w, "webhook")
	return w, err
}

func (w *webhook) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review struct {
		Request struct {
			UID, Name string
			UserInfo  struct{ Username string }
			Resource  struct{ Resource string }
		}
	}
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	r := review.Request
	refused := r.UserInfo.Username == collectorUser
	if refused && w.breaks.Load() {
		http.Error(out, "broken", http.StatusInternalServerError)
		return
	}
	status := object{}
	if refused {
		for k, v := range refusals[int(w.which.Load())%len(refusals)] {
			status[k] = v
		}
		if status["code"] == 404 || status["code"] == 410 { // as like the API server's own answer as possible
			status["details"] = object{"name": r.Name, "kind": r.Resource.Resource}
			status["message"] = r.Resource.Resource + ` "` + r.Name + `" not found`
		}
	}
	data, err := json.Marshal(object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": object{"uid": r.UID, "allowed": !refused, "status": status}})
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(data) // the API server reports a failure
}

// install makes the API servers ask the webhook about some types.
func (w *webhook) install(ctx context.Context, c *client, authority []byte) error {
	rule := func(group string, resources ...string) object {
		return object{"operations": []string{"DELETE", "UPDATE"}, "apiGroups": []string{group}, "apiVersions": []string{"*"}, "resources": resources}
	}
	rules := []object{rule("", "secrets", "configmaps"), rule("batch", "jobs"), rule("g1.soak.example.com", "*"), rule("g2.soak.example.com", "*")}
	err := c.insist(ctx, http.MethodPost, webhookPath, object{"metadata": object{"name": "soak"}, "webhooks": []object{{
		"name": "soak.example.com", "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "failurePolicy": "Fail", "timeoutSeconds": 5,
		"clientConfig": object{"url": w.server.URL, "caBundle": authority}, "rules": rules}}}, nil)
	if codeOf(err) == http.StatusConflict {
		return nil
	}
	return err
}

func (w *webhook) remove(ctx context.Context, c *client) error {
	return gone(ctx, c, webhookPath+"/soak")
}

// gone deletes an object that may not exist.
func gone(ctx context.Context, c *client, path string) error {
	err := c.insist(ctx, http.MethodDelete, path, nil, nil)
	if codeOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}
