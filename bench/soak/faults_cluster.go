package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ebb-agent/ebb/bench/soak/plan"
)

const (
	flowPath       = "/apis/flowcontrol.apiserver.k8s.io/v1/"
	nobodyPath     = servicePath + "/v1.nobody.example.com"
	servicePath    = "/apis/apiregistration.k8s.io/v1/apiservices"
	definitionPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
)

// throttled makes the API servers answer each request of the collector with 429. Every second time
// they also do so for the renewals of its Lease.
func (f *faults) throttled(ctx context.Context, x plan.Fault) error {
	precedence := 200 // after the schema of its Lease
	if x.Which%2 == 0 {
		precedence = 100
	}
	level := object{"metadata": object{"name": "soak-none"}, "spec": object{"type": "Limited", "limited": object{
		"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": object{"type": "Reject"}}}}
	schema := object{"metadata": object{"name": "soak-none"}, "spec": object{"priorityLevelConfiguration": object{"name": "soak-none"}, "matchingPrecedence": precedence,
		"rules": []object{{"subjects": []object{{"kind": "ServiceAccount", "serviceAccount": object{"name": "ebb-controller", "namespace": "ebb-system"}}},
			"resourceRules":    []object{{"apiGroups": []string{"*"}, "resources": []string{"*"}, "namespaces": []string{"*"}, "clusterScope": true, "verbs": []string{"*"}}},
			"nonResourceRules": []object{{"nonResourceURLs": []string{"*"}, "verbs": []string{"*"}}}}}}}
	if err := f.made(ctx, flowPath+"prioritylevelconfigurations", level); err != nil {
		return err
	}
	err := f.made(ctx, flowPath+"flowschemas", schema)
	if err == nil {
		sleep(ctx, x.Lasts)
	}
	ctx, cancel := healed(ctx)
	defer cancel()
	if err := gone(ctx, f.client, flowPath+"flowschemas/soak-none"); err != nil {
		return err
	}
	return gone(ctx, f.client, flowPath+"prioritylevelconfigurations/soak-none")
}

// made creates an object that may exist. An end of ctx is no error, because the repair that follows
// removes the object.
func (f *faults) made(ctx context.Context, path string, o object) error {
	err := f.client.insist(ctx, http.MethodPost, path, o, nil)
	if codeOf(err) == http.StatusConflict || ctx.Err() != nil {
		return nil
	}
	return err
}

func (f *faults) refuses(ctx context.Context, x plan.Fault) error {
	f.webhook.breaks.Store(x.Kind == "webhook-breaks")
	f.webhook.which.Store(int64(x.Which))
	err := f.webhook.install(ctx, f.client, f.cp.Authority().PEM())
	if err == nil {
		sleep(ctx, 2*x.Lasts)
	}
	ctx, cancel := healed(ctx)
	defer cancel()
	return f.webhook.remove(ctx, f.client)
}

// withdrawn stops serving one of a type's versions.
func (f *faults) withdrawn(ctx context.Context, x plan.Fault) error {
	kinds := several(f.definitions)
	k := kinds[x.Which%len(kinds)]
	version := k.Versions[x.Which/len(kinds)%len(k.Versions)]
	if err := f.serve(ctx, k, func(v string) bool { return v != version }); err != nil && ctx.Err() == nil {
		return fmt.Errorf("withdraw %s of %s: %w", version, k.Kind, err)
	}
	sleep(ctx, 2*x.Lasts)
	ctx, cancel := healed(ctx)
	defer cancel()
	return f.serve(ctx, k, func(string) bool { return true })
}

// serve serves some versions of a type. It does nothing for a type that is not defined.
func (f *faults) serve(ctx context.Context, k *plan.Kind, served func(string) bool) error {
	err := f.client.insist(ctx, http.MethodPatch, definitionPath+k.Resource+"."+k.Group,
		object{"spec": object{"versions": k.Definition(served)["spec"].(object)["versions"]}}, nil)
	if codeOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// partial registers an API that no server serves, so that discovery is incomplete.
func (f *faults) partial(ctx context.Context, x plan.Fault) error {
	service := object{"metadata": object{"name": "v1.nobody.example.com"}, "spec": object{"group": "nobody.example.com", "version": "v1",
		"groupPriorityMinimum": 100, "versionPriority": 1, "insecureSkipTLSVerify": true, "service": object{"namespace": "default", "name": "nobody"}}}
	err := f.made(ctx, servicePath, service)
	if err == nil {
		sleep(ctx, 2*x.Lasts)
	}
	ctx, cancel := healed(ctx)
	defer cancel()
	return gone(ctx, f.client, nobodyPath)
}

// normal ends all conditions.
func (f *faults) normal(ctx context.Context) error {
	for _, path := range []string{webhookPath + "/soak", flowPath + "flowschemas/soak-none", flowPath + "prioritylevelconfigurations/soak-none", nobodyPath} {
		if err := gone(ctx, f.client, path); err != nil {
			return err
		}
	}
	if err := f.announce(ctx); err != nil {
		return err
	}
	for _, k := range several(f.definitions) {
		if err := f.serve(ctx, k, func(string) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}

// several returns the types with more than one version.
func several(definitions int) (kinds []*plan.Kind) {
	for _, k := range plan.Kinds(definitions) {
		if k.Custom && len(k.Versions) > 1 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}
