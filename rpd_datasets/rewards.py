"""Rewards by name, for other trainers.

TRL, with a dataset that has a column `answer` or `solution`:

    trl grpo --model_name_or_path MODEL --dataset_name DATA \\
        --reward_funcs accuracy_reward rpd_datasets.rewards.diversity --reward_weights 1.0 0.1

In `verifiers` from 0.4, several attempts at one task are compared by an environment's `finalize`,
whose tasks have the field `answer`; make it your environment and run it with `--env.n 8`:

    import asyncio
    from verifiers.v1.envs.best_of_n import BestOfNEnv

    class DiverseEnv(BestOfNEnv):
        async def finalize(self, task, episode):
            await super().finalize(task, episode)
            replies = [trace.last_reply for trace in episode.traces]
            count, row = len(replies), task.data
            asked = [row.prompt_text] * count, replies, [row.answer] * count
            rewards = await asyncio.to_thread(diversity, *asked)
            for trace, reward in zip(episode.traces, rewards):
                trace.record_reward("diversity", reward, weight=0.1)

In verl it becomes an advantage estimator. The default trainer of verl 0.9.1 gives an estimator no
texts: set `trainer.use_v1=False`. `compute_advantage` of `verl/trainer/ppo/ray_trainer.py` passes
`batch` and `non_tensor_batch` only to `gdpo`: add your estimator's name there. The estimator was
run with verl's functions, a training was not.

    @register_adv_est("grpo_rpd")
    def grpo_rpd(token_level_rewards, response_mask, index, batch, non_tensor_batch, **_):
        plain, _ = compute_grpo_outcome_advantage(token_level_rewards, response_mask, index)
        far = diversity(
            prompts=non_tensor_batch["raw_prompt"],
            completions=tokenizer.batch_decode(batch["responses"], skip_special_tokens=True),
            answer=[row["ground_truth"] for row in non_tensor_batch["reward_model"]],
            uid=list(index),
        )
        bonus = 0.1 * response_mask.new_tensor(far, dtype=plain.dtype)[:, None] * response_mask
        return plain + bonus, plain + bonus

See `training/reward_functions.py` for what it measures and what is logged beside it.
"""

from rpd_datasets.training.reward_functions import diversity

__all__ = ["diversity"]
