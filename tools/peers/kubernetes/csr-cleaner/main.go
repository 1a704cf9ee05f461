// Command csr-cleaner runs the kube-controller-manager's cleaner of
// CertificateSigningRequests alone, and only once its cache is filled. Within the
// kube-controller-manager it runs before its cache is filled, and then once an hour,
// which is too rare for a test.
//
// It is a program of its own module, and not one of ebb's tests: in one module, the
// dependencies of both would be raised to each other's versions.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached")
	qps := flag.Float64("kube-api-qps", 20, "requests a second; the default is the kube-controller-manager's")
	burst := flag.Int("kube-api-burst", 30, "requests at once; the same")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, float32(*qps), *burst); err != nil {
		fmt.Fprintln(os.Stderr, "csr-cleaner:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, qps float32, burst int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = qps, burst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	requests := factory.Certificates().V1().CertificateSigningRequests()
	requests.Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), requests).Run(ctx, 1)
	factory.Shutdown()
	return nil
}
