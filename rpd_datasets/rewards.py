"""Rewards by name, for other trainers.

TRL, with a dataset that has a column `answer` or `solution`:

    trl grpo --model_name_or_path MODEL --dataset_name DATA \\
        --reward_funcs accuracy_reward rpd_datasets.rewards.diversity --reward_weights 1.0 0.1

In `verifiers` it is a group reward, since its arguments are plural:

    rubric = vf.Rubric(funcs=[correct, diversity], weights=[1.0, 0.1])

In verl it becomes an advantage estimator (not tested here). verl 0.7 passes `batch` and
`non_tensor_batch` only to `gdpo`: add your estimator's name in `compute_advantage` of
`verl/trainer/ppo/ray_trainer.py`.

    @register_adv_est("grpo_rpd")
    def grpo_rpd(token_level_rewards, response_mask, index, batch, non_tensor_batch, **_):
        plain, _ = compute_grpo_outcome_advantage(token_level_rewards, response_mask, index)
        far = diversity(
            prompts=non_tensor_batch["raw_prompt"],
            completions=tokenizer.batch_decode(batch["responses"], skip_special_tokens=True),
            answers=[row["ground_truth"] for row in non_tensor_batch["reward_model"]],
            uid=list(index),
        )
        bonus = 0.1 * response_mask.new_tensor(far, dtype=plain.dtype)[:, None] * response_mask
        return plain + bonus, plain + bonus

See `training/reward_functions.py` for what it measures and what is logged beside it.
"""

from rpd_datasets.training.reward_functions import diversity

__all__ = ["diversity"]
