package naming

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var some = []Resource{
	{"", "v1", "pods", "Pod", "pod", []string{"po"}, true},
	{"", "v1", "services", "Service", "service", []string{"svc"}, true},
	{"", "v1", "bindings", "Binding", "binding", nil, false},
	{"apps", "v1", "deployments", "Deployment", "deployment", []string{"deploy"}, true},
	{"example.io", "v1", "deployments", "Deployment", "deployment", []string{"xd"}, true},
	{"example.io", "v1", "widgets", "Widget", "widget", []string{"w", "po"}, true},
	{"example.io", "v1beta1", "widgets", "Widget", "widget", []string{"w"}, true},
	{"example.io", "v1", "po", "Po", "", nil, true},
	{"serving.example.io", "v1", "services", "Service", "service", []string{"ksvc"}, true},
	{"metrics.k8s.io", "v1beta1", "pods", "PodMetrics", "", nil, false},
}

func TestFind(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"pods", "pods"}, {"pod", "pods"}, {"Pod", "pods"}, {"PODS", "pods"},
		{"po", "po.example.io"}, // a plural counts before a short name
		{"deploy", "deployments.apps"}, {"deployments.apps", "deployments.apps"}, {"deployment.apps", "deployments.apps"},
		{"Deployment.apps", "deployments.apps"}, {"deployments.v1.apps", "deployments.apps"}, {"deploy.apps", "deployments.apps"},
		{"deployments.example.io", "deployments.example.io"},
		{"widgets", "widgets.example.io"}, {"w", "widgets.example.io"}, {"widgets.v1beta1.example.io", "widgets.example.io"},
		{"services", "services"}, // the core group wins
		{"services.serving.example.io", "services.serving.example.io"}, {"pods.v1", "pods"},
	} {
		got, err := Find(test.name, some)
		if err != nil || got.String() != test.want {
			t.Errorf("%s: %v, %v; want %s", test.name, got, err, test.want)
		}
	}
	for name, want := range map[string]error{
		"deployments": ErrAmbiguous, "deployment": ErrAmbiguous, "nothing": ErrUnknown, "": ErrUnknown, ".": ErrUnknown, ".apps": ErrUnknown,
		"pods.apps": ErrUnknown, "bindings": ErrUnknown, "podmetrics": ErrUnknown, "widgets.v2.example.io": ErrUnknown,
	} {
		if got, err := Find(name, some); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v; want %v", name, got, err, want)
		}
	}
	_, err := Find("deployments", some)
	if want := "deployments.apps or deployments.example.io"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not contain %q", err, want)
	}
}
