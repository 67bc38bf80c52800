# ruff: noqa
# mypy: ignore-errors


def boolean_string(string):
    low_string = string.lower()
    if low_string not in {"false", "true"}:
        raise ValueError("Not a valid boolean string")
    return low_string == "true"


# Get parse
def get_arg_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_location", required=False, default="./data")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--output_dir", default="./result")
    parser.add_argument("--checkpoint", required=False)
    parser.add_argument("--export", required=False)
    parser.add_argument("--save_steps", type=int)
    parser.add_argument("--seed", type=int, default=2021)
    optimizers = ["adam", "adamasync", "adagraddecay", "adagrad", "gradientdescent"]
    parser.add_argument("--optimizer", choices=optimizers, default="adamasync")
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--keep_checkpoint_max", type=int, default=1)
    parser.add_argument("--timeline", type=int, default=0)
    parser.add_argument("--protocol", choices=["grpc", "grpc++", "star_server"], default="grpc")
    parser.add_argument("--interaction_op", choices=["dot", "cat"], default="cat")
    parser.add_argument("--input_layer_partitioner", type=int, default=0)
    parser.add_argument("--dense_layer_partitioner", type=int, default=0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--no_eval", action="store_true")
    parser.add_argument("--tf", action="store_true")
    parser.add_argument("--smartstaged", type=boolean_string, default=True)
    parser.add_argument("--emb_fusion", type=boolean_string, default=True)
    parser.add_argument("--op_fusion", type=boolean_string, default=True)
    parser.add_argument("--micro_batch", type=int, default=0)
    parser.add_argument("--adaptive_emb", type=boolean_string, default=False)
    parser.add_argument("--dynamic_ev", type=boolean_string, default=False)
    parser.add_argument("--multihash", type=boolean_string, default=False)
    parser.add_argument("--ev", type=boolean_string, default=False)
    parser.add_argument("--ev_elimination", choices=[None, "l2", "gstep"], default=None)
    parser.add_argument("--ev_filter", choices=[None, "counter", "cbf"], default=None)
    parser.add_argument("--incremental_ckpt", type=int, default=None)
    parser.add_argument("--workqueue", type=boolean_string, default=False)
    parser.add_argument("--parquet_dataset", type=boolean_string, default=True)
    parser.add_argument("--parquet_dataset_shuffle", type=boolean_string, default=False)
    parser.add_argument(
        "--group_embedding", choices=[None, "localized", "collective"], default=None
    )
    parser.add_argument("--inter", type=int, default=0)
    parser.add_argument("--intra", type=int, default=0)
    return parser


# Parse distributed training configuration and generate cluster information
def generate_cluster_info(TF_CONFIG):
    print(TF_CONFIG)
    tf_config = json.loads(TF_CONFIG)
    cluster_config = tf_config.get("cluster")
    ps_hosts = []
    worker_hosts = []
    chief_hosts = []
    for key, value in cluster_config.items():
        if "ps" == key:
            ps_hosts = value
        elif "worker" == key:
            worker_hosts = value
        elif "chief" == key:
            chief_hosts = value
    if chief_hosts:
        worker_hosts = chief_hosts + worker_hosts

    if not ps_hosts or not worker_hosts:
        print("[TF_CONFIG ERROR] Incorrect ps_hosts or incorrect worker_hosts.")
        sys.exit()

    task_config = tf_config.get("task")
    task_type = task_config.get("type")
    task_index = task_config.get("index") + (1 if task_type == "worker" and chief_hosts else 0)

    if task_type == "chief":
        task_type = "worker"

    is_chief = True if task_index == 0 else False
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.distribute.Server(
        cluster, job_name=task_type, task_index=task_index, protocol=args.protocol
    )
    if task_type == "ps":
        server.join()
    elif task_type == "worker":
        tf_config = {
            "ps_hosts": ps_hosts,
            "worker_hosts": worker_hosts,
            "type": task_type,
            "index": task_index,
            "is_chief": is_chief,
        }
        tf_device = tf.device(
            tf.train.replica_device_setter(
                worker_device="/job:worker/task:%d" % task_index, cluster=cluster
            )
        )
        return tf_config, server, tf_device
    else:
        print("Task type or index error.")
        sys.exit()


# Some DeepRec's features are enabled by ENV.
def set_env_for_DeepRec():
    os.environ["START_STATISTIC_STEP"] = "100"
    os.environ["STOP_STATISTIC_STEP"] = "110"
    os.environ["MALLOC_CONF"] = "background_thread:true,metadata_thp:auto"


def check_stock_tf():
    import pkg_resources

    detailed_version = pkg_resources.get_distribution("Tensorflow").version
    return not ("deeprec" in detailed_version)


if __name__ == "__main__":
    parser = get_arg_parser()
    args = parser.parse_args()

    if not args.tf and check_stock_tf():
        raise ValueError(
            "Stock Tensorflow does not support DeepRec features. "
            "For Stock Tensorflow run with `--tf`."
        )

    if not args.tf:
        set_env_for_DeepRec()

    TF_CONFIG = os.getenv("TF_CONFIG")
    if not TF_CONFIG:
        main()
    else:
        tf_config, server, tf_device = generate_cluster_info(TF_CONFIG)
        with tf_device:
            main(tf_config, server)
