import numpy as np
import pytest
import torch

import reference
from unmask import CONSTRUCTIONS, construct
from unmask.evaluation.metrics import average_kl, incompatibility


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_average_kl_is_the_mean_over_all_contexts(name):
    conditionals = reference.draw(5, 8, 1.5, seed=9)
    p, r, _, _ = reference.dense(conditionals)
    joint = construct(name, conditionals)
    q = joint.log_block(slice(None), slice(None)).double().exp().numpy()
    contexts = [(p[:, b] * np.log(p[:, b] / (q[:, b] / q[:, b].sum()))).sum() for b in range(8)]
    contexts += [(r[a] * np.log(r[a] / (q[a] / q[a].sum()))).sum() for a in range(5)]
    assert average_kl(joint) == pytest.approx(np.mean(contexts), abs=1e-9)


def test_conditionals_of_one_joint_are_compatible_and_others_are_not():
    truth = torch.rand(6, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert incompatibility(reference.of_joint(truth / truth.sum())) == pytest.approx(0, abs=1e-12)
    conditionals = reference.draw(6, 7, 1.0, seed=0)
    log_c = (conditionals.a_table - conditionals.b_table).numpy()
    interaction = log_c + log_c.mean() - log_c.mean(1, keepdims=True) - log_c.mean(0, keepdims=True)
    assert incompatibility(conditionals) == pytest.approx((interaction**2).mean(), abs=1e-12)
    assert incompatibility(conditionals) > 0.5
