// SPDX-License-Identifier: GPL-2.0
/* The NICs, the cable of each pair, and what can be set about them. */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/rtnetlink.h>

#include "nic.h"

unsigned int nic_drop_every;
module_param_named(drop_every, nic_drop_every, uint, 0644);
MODULE_PARM_DESC(drop_every, "lose one data packet in N");
unsigned int nic_linear_every;
module_param_named(linear_every, nic_linear_every, uint, 0644);
MODULE_PARM_DESC(linear_every, "put the payload of one data packet in N into host memory");
bool nic_shuffle;
module_param_named(shuffle, nic_shuffle, bool, 0644);
MODULE_PARM_DESC(shuffle, "use the pages of a pool in no order");
bool nic_starve;
module_param_named(starve, nic_starve, bool, 0644);
MODULE_PARM_DESC(starve, "no pool gives a page: packets with a payload are lost");
int nic_reset_error;
module_param_named(reset_error, nic_reset_error, int, 0644);
MODULE_PARM_DESC(reset_error, "resetting a queue fails with this error number");
bool nic_segment = true;
module_param_named(segment, nic_segment, bool, 0644);
MODULE_PARM_DESC(segment, "what TSO would cut arrives in packets, else in one piece");
static bool netmem_tx = true;
module_param(netmem_tx, bool, 0444);
MODULE_PARM_DESC(netmem_tx, "device memory can be sent");
static bool queue_ops = true;
module_param(queue_ops, bool, 0444);
MODULE_PARM_DESC(queue_ops, "queues can be reset one by one, which receiving needs");
static unsigned int pairs = 1;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "how many pairs there are, at most " __stringify(NIC_PAIRS));

struct device *nic_parent;
static struct platform_device *parent;
/* Two neighbours have a cable. NULL: unplugged, or not there. */
static struct net_device *nics[2 * NIC_PAIRS];
static DEFINE_MUTEX(nics_lock);

static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev), *peer;
	struct net_device *end;

	skb_tx_timestamp(skb);
	dev_sw_netstats_tx_add(dev, 1, skb->len);
	if (!skb_frags_readable(skb))
		nic->tx_device_packets++;
	rcu_read_lock();
	end = rcu_dereference(nic->peer);
	if (end) {
		peer = netdev_priv(end);
		nic_queue_deliver(&peer->queues[nic_steer(peer, skb)], skb);
	} else {
		dev_kfree_skb_any(skb);
	}
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

static int nic_open(struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);
	int i, error;

	for (i = 0; i < NIC_QUEUES; i++) {
		error = nic_queue_open(&nic->queues[i]);
		if (error)
			goto close;
	}
	netif_carrier_on(dev);
	netif_tx_start_all_queues(dev);
	return 0;
close:
	while (i--)
		nic_queue_close(&nic->queues[i]);
	return error;
}

static int nic_stop(struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);
	int i;

	netif_tx_disable(dev);
	netif_carrier_off(dev);
	for (i = 0; i < NIC_QUEUES; i++)
		nic_queue_close(&nic->queues[i]);
	return 0;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static struct net_device *nic_create(int number)
{
	struct net_device *dev = alloc_etherdev_mqs(sizeof(struct nic), NIC_QUEUES, NIC_QUEUES);
	struct nic *nic;
	int i;

	if (!dev)
		return NULL;
	nic = netdev_priv(dev);
	nic->dev = dev;
	snprintf(dev->name, IFNAMSIZ, "tnic%d", number);
	SET_NETDEV_DEV(dev, nic_parent);
	eth_hw_addr_random(dev);
	dev->netdev_ops = &nic_ops;
	dev->ethtool_ops = &nic_ethtool_ops;
	if (queue_ops)
		dev->queue_mgmt_ops = &nic_queue_ops;
	if (netmem_tx)
		dev->netmem_tx = NETMEM_TX_DMA;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->hw_features = NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_RXCSUM | NETIF_F_HIGHDMA |
			   NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_NTUPLE;
	/* A NIC comes without flow rules and without header split: both must be asked for. */
	dev->features = dev->hw_features & ~NETIF_F_NTUPLE;
	dev->max_mtu = 9216;
	nic_steer_init(nic);
	for (i = 0; i < NIC_QUEUES; i++)
		nic_queue_init(&nic->queues[i], dev, i);
	return dev;
}

/* What the NIC at the other end of the cable of NIC `number` sends to. */
static void nic_set_cable(int number, struct net_device *dev)
{
	struct net_device *other = nics[number ^ 1];

	if (other)
		rcu_assign_pointer(((struct nic *)netdev_priv(other))->peer, dev);
}

static int nic_plug(int number)
{
	struct net_device *dev = nic_create(number);
	int error;

	if (!dev)
		return -ENOMEM;
	error = register_netdev(dev);
	if (error) {
		free_netdev(dev);
		return error;
	}
	nics[number] = dev;
	rcu_assign_pointer(((struct nic *)netdev_priv(dev))->peer, nics[number ^ 1]);
	nic_set_cable(number, dev);
	return 0;
}

/* As with any hardware, its memory is free at once. */
static void nic_unplug(int number)
{
	struct net_device *dev = nics[number];

	nic_set_cable(number, NULL);
	nics[number] = NULL;
	unregister_netdev(dev);
	synchronize_net();
	free_netdev(dev);
}

/* The number of a NIC that is there, or is not, in `value`. Then `nics_lock` is held. */
static int nic_numbered(const char *value, bool there, unsigned int *number)
{
	int error = kstrtouint(value, 10, number);

	if (error)
		return error;
	mutex_lock(&nics_lock);
	/* Before the module is loaded, none is there, and none can be plugged in. */
	if (parent && *number < 2 * pairs && !nics[*number] == !there)
		return 0;
	mutex_unlock(&nics_lock);
	return -ENODEV;
}

static int nic_plug_set(const char *value, const struct kernel_param *param)
{
	unsigned int number;
	int error = nic_numbered(value, false, &number);

	if (error)
		return error;
	error = nic_plug(number);
	mutex_unlock(&nics_lock);
	return error;
}

static int nic_unplug_set(const char *value, const struct kernel_param *param)
{
	unsigned int number;
	int error = nic_numbered(value, true, &number);

	if (error)
		return error;
	nic_unplug(number);
	mutex_unlock(&nics_lock);
	return 0;
}

static const struct kernel_param_ops nic_plug_ops = { .set = nic_plug_set };
module_param_cb(plug, &nic_plug_ops, NULL, 0200);
MODULE_PARM_DESC(plug, "NIC N is there again");
static const struct kernel_param_ops nic_unplug_ops = { .set = nic_unplug_set };
module_param_cb(unplug, &nic_unplug_ops, NULL, 0200);
MODULE_PARM_DESC(unplug, "NIC N is gone, and the other NIC of its pair is not");

static void nic_destroy(void)
{
	int i;

	mutex_lock(&nics_lock);
	for (i = 0; i < ARRAY_SIZE(nics); i++)
		if (nics[i])
			nic_unplug(i);
	platform_device_unregister(parent);
	parent = NULL;
	mutex_unlock(&nics_lock);
}

static int __init nic_module_init(void)
{
	int i, error;

	if (!pairs || pairs > NIC_PAIRS)
		return -EINVAL;
	parent = platform_device_register_simple("tcpx-devmem-nic", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(parent)) {
		error = PTR_ERR(parent);
		parent = NULL;
		return error;
	}
	nic_parent = &parent->dev;
	error = dma_set_mask_and_coherent(nic_parent, DMA_BIT_MASK(64));
	mutex_lock(&nics_lock);
	for (i = 0; !error && i < 2 * pairs; i++)
		error = nic_plug(i);
	mutex_unlock(&nics_lock);
	if (error)
		nic_destroy();
	return error;
}

static void __exit nic_module_exit(void)
{
	nic_destroy();
}

module_init(nic_module_init);
module_exit(nic_module_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Pairs of NICs for testing device-memory TCP");
MODULE_IMPORT_NS("NETDEV_INTERNAL");
